#include "dump/file/driver.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "dump/file/write_behind.h"

#if H5_VERSION_GE(1, 13, 2)
#include <H5FDdevelop.h>
#endif

namespace tilescope::hdf5 {

namespace {

// HDF5 extends H5FD_t by placing it first.
struct DriverFile {
    H5FD_t base = {};
    DriverTarget* target = nullptr;
    haddr_t end_of_allocation = 0;
    haddr_t end_of_file = 0;
};

DriverFile& file_of(H5FD_t* file) {
    return *reinterpret_cast<DriverFile*>(file);
}
const DriverFile& file_of(const H5FD_t* file) {
    return *reinterpret_cast<const DriverFile*>(file);
}

// The driver's part of a file access list. HDF5 copies it with malloc.
struct DriverInfo {
    DriverTarget* target = nullptr;
};
void* copy_info(const void* from) {
    void* copy = std::malloc(sizeof(DriverInfo));
    if (copy != nullptr) std::memcpy(copy, from, sizeof(DriverInfo));
    return copy;
}
herr_t free_info(void* info) {
    std::free(info);
    return 0;
}

H5FD_t* open_file(const char*, unsigned, hid_t fapl, haddr_t) {
    const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(fapl));
    if (info == nullptr) return nullptr;
    auto* file = new (std::nothrow) DriverFile();
    if (file == nullptr) return nullptr;
    file->target = info->target;
    struct stat status = {};
    if (fstat(file->target->descriptor, &status) == 0) {
        file->end_of_file = static_cast<haddr_t>(status.st_size);
    }
    return &file->base;
}
herr_t close_file(H5FD_t* file) {
    delete &file_of(file);
    return 0;
}
int compare_files(const H5FD_t* a, const H5FD_t* b) {
    const int first = file_of(a).target->descriptor;
    const int second = file_of(b).target->descriptor;
    return first < second ? -1 : first > second;
}
herr_t query_features(const H5FD_t*, unsigned long* flags) {
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}
haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t) {
    return file_of(file).end_of_allocation;
}
herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
    file_of(file).end_of_allocation = address;
    return 0;
}
haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) {
    return file_of(file).end_of_file;
}

herr_t fail(DriverTarget& target, int error) {
    if (target.error == 0) target.error = error;
    return target.hide_errors ? 0 : -1;
}

herr_t read_bytes(H5FD_t* base, H5FD_mem_t kind, hid_t, haddr_t address, std::size_t size, void* buffer) {
    DriverFile& file = file_of(base);
    DriverTarget& target = *file.target;
    if (target.locate_elements && kind == H5FD_MEM_DRAW) {
        target.located_at = static_cast<std::int64_t>(address);
        target.located_bytes = static_cast<std::int64_t>(size);
        return 0;
    }
    // Zeros past the end, as in every driver, and for what was not written after an error.
    std::memset(buffer, 0, size);
    if (address >= file.end_of_file || target.error != 0) return 0;
    const std::size_t inside = std::min<std::size_t>(size, file.end_of_file - address);
    const bool read = read_exactly(target.descriptor, static_cast<std::int64_t>(address),
                                   static_cast<std::int64_t>(inside), buffer);
    return read ? 0 : fail(target, errno == 0 ? EIO : errno);
}

herr_t write_bytes(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, const void* buffer) {
    DriverFile& file = file_of(base);
    DriverTarget& target = *file.target;
    file.end_of_file = std::max<haddr_t>(file.end_of_file, address + size);
    if (target.error != 0) return 0;
    const auto place = static_cast<std::int64_t>(address);
    if (target.behind != nullptr && target.behind->put(place, buffer, size)) return 0;
    const int error = write_exactly(target.descriptor, place, size, buffer);
    return error == 0 ? 0 : fail(target, error);
}

herr_t truncate_file(H5FD_t* base, hid_t, hbool_t) {
    DriverFile& file = file_of(base);
    if (file.end_of_file == file.end_of_allocation) return 0;
    const auto size = static_cast<off_t>(file.end_of_allocation);
    file.end_of_file = file.end_of_allocation;
    return ftruncate(file.target->descriptor, size) == 0 ? 0 : fail(*file.target, errno);
}

H5FD_class_t make_class() {
    H5FD_class_t driver = {};
#if H5_VERSION_GE(1, 13, 2)
    driver.version = H5FD_CLASS_VERSION;
    driver.value = H5_VFD_RESERVED;
#endif
    driver.name = "tilescope";
    driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<off_t>::max());
    driver.fc_degree = H5F_CLOSE_WEAK;
    driver.fapl_size = sizeof(DriverInfo);
    driver.fapl_copy = copy_info;
    driver.fapl_free = free_info;
    driver.open = open_file;
    driver.close = close_file;
    driver.cmp = compare_files;
    driver.query = query_features;
    driver.get_eoa = get_end_of_allocation;
    driver.set_eoa = set_end_of_allocation;
    driver.get_eof = get_end_of_file;
    driver.read = read_bytes;
    driver.write = write_bytes;
    driver.truncate = truncate_file;
    const H5FD_mem_t one_list[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
    std::memcpy(driver.fl_map, one_list, sizeof one_list);
    return driver;
}

}  // namespace

bool set_driver(hid_t fapl, DriverTarget& target) {
    static const H5FD_class_t driver = make_class();
    target.driver = Id(H5FDregister(&driver));
    if (!target.driver) return false;
    const DriverInfo info = {&target};
    return H5Pset_driver(fapl, target.driver.get(), &info) >= 0;
}

bool read_exactly(int descriptor, std::int64_t address, std::int64_t bytes, void* buffer) {
    auto* target = static_cast<char*>(buffer);
    while (bytes > 0) {
        errno = 0;
        const ssize_t count = pread(descriptor, target, static_cast<std::size_t>(bytes), address);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        target += count;
        bytes -= count;
        address += count;
    }
    return true;
}

int write_exactly(int descriptor, std::int64_t address, std::size_t bytes, const void* buffer) {
    const auto* source = static_cast<const char*>(buffer);
    while (bytes > 0) {
        const ssize_t count = pwrite(descriptor, source, bytes, static_cast<off_t>(address));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count < 0 ? errno : EIO;
        source += count;
        bytes -= static_cast<std::size_t>(count);
        address += count;
    }
    return 0;
}

}  // namespace tilescope::hdf5
