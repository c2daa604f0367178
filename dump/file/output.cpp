#include "dump/file/output.h"

#include <cstring>

#include "dump/file/sink_image.h"
#include "dump/schema/error.h"

namespace tilescope::hdf5 {

namespace {

void create_file(OutputFile& file, const TemporaryFile& temporary, const SinkRoom* sink) {
    const Id access = checked(H5Pcreate(H5P_FILE_ACCESS));
    if (!set_driver(access.get(), file.target)) throw Failure();
    // Checksums on all metadata, and the chunk indices of the writer's tiles; read by HDF5 1.10 and everything
    // since.
    check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110));
    if (sink != nullptr) align_sink_image(access.get(), *sink);
    const Id creation = creation_properties(H5P_FILE_CREATE);
    file.id = checked(H5Fcreate(temporary.path().c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
}

}  // namespace

void fill_file(const TemporaryFile& temporary, const std::string& path, const SinkRoom* sink,
               const std::function<void(OutputFile&)>& write_contents) {
    std::string failure;
    int error = 0;
    {
        const Session session;
        OutputFile file(temporary.descriptor());
        try {
            create_file(file, temporary, sink);
            write_contents(file);
        } catch (const Failure& failed) {
            failure = failed.what();
        }
        file.id.close();
        const int error_behind = file.behind.flush();
        error = file.target.error != 0 ? file.target.error : error_behind;
    }
    if (error != 0) failure = std::strerror(error);
    if (!failure.empty()) {
        throw Error("cannot be written: " + failure, path, "free space on its disk or choose another file");
    }
}

}  // namespace tilescope::hdf5
