#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "dump/file/saved_name.h"
#include "dump/schema/error.h"
#include "dump/writer.h"

namespace tilescope {

namespace {

/// What launchers call a process among those of a job: torchrun, Open MPI, MPICH and Intel MPI, Slurm.
constexpr const char* rank_variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

/// ".rank3"; "" where nobody says.
std::string rank_in_name() {
    for (const char* variable : rank_variables) {
        const char* rank = std::getenv(variable);
        if (rank == nullptr || *rank == 0) continue;
        const std::string digits = rank;
        if (digits.find_first_not_of("0123456789") == std::string::npos) return ".rank" + digits;
    }
    return "";
}

/// Creates the file, so that no other process takes the name. False where it is there already.
bool reserve(const std::filesystem::path& path) {
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
        close(descriptor);
        return true;
    }
    if (errno == EEXIST) return false;
    throw Error(std::string("cannot be written: ") + std::strerror(errno), path.string(),
                "let TILESCOPE_DIR name a folder that can be written");
}

/// Numbers the saves of this process.
class SavedLaunches {
 public:
    /// A name in `folder` that nobody else has.
    std::filesystem::path next(const std::filesystem::path& folder, const std::filesystem::path& name) {
        const std::lock_guard lock(mutex_);
        std::error_code error;
        std::filesystem::create_directories(folder, error);
        if (error) {
            throw Error("cannot be created: " + error.message(), folder.string(),
                        "let TILESCOPE_DIR name a folder that can be written");
        }
        const std::string behind = rank_in_name() + process_in_name(getpid()) + name.extension().string();
        std::filesystem::path path;
        do {
            path = folder / (name.stem().string() + ".launch" + std::to_string(launches_++) + behind);
        } while (!reserve(path));
        if (!said_) std::fprintf(stderr, "tilescope: TILESCOPE_DIR is set, saving to %s\n", path.c_str());
        said_ = true;
        return path;
    }

 private:
    std::mutex mutex_;
    long launches_ = 0;
    bool said_ = false;
};

}  // namespace

std::string save_recording(const std::string& path, const Recording& recording) {
    static SavedLaunches saved;
    const char* const folder = std::getenv("TILESCOPE_DIR");
    if (folder == nullptr || *folder == 0) {
        write_recording(path, recording);
        return path;
    }
    const std::filesystem::path in_folder = saved.next(folder, std::filesystem::path(path).filename());
    try {
        write_recording(in_folder.string(), recording);
    } catch (...) {
        std::error_code ignored;
        std::filesystem::remove(in_folder, ignored);
        throw;
    }
    return in_folder.string();
}

}  // namespace tilescope
