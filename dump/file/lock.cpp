#include "dump/file/lock.h"

#include <fcntl.h>

#include <cerrno>

namespace tilescope {

namespace {

// A lock of the opening, not of the process: it goes over to copies of the descriptor, and closing another
// one of the same file does not end it. Of a byte far behind the content, where nobody else's locks are.
struct flock lock_of_opening() {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = off_t(1) << 62;
    lock.l_len = 1;
    return lock;
}

}  // namespace

int hold_file(int descriptor) {
    struct flock lock = lock_of_opening();
    if (fcntl(descriptor, F_OFD_SETLK, &lock) == 0) return 0;
    return errno == EACCES ? EAGAIN : errno;
}

void let_go_of_file(int descriptor) {
    struct flock lock = lock_of_opening();
    lock.l_type = F_UNLCK;
    fcntl(descriptor, F_OFD_SETLK, &lock);
}

bool is_held(int descriptor) {
    struct flock lock = lock_of_opening();
    return fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace tilescope
