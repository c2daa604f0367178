// What a writer leaves when it is ended: nothing by a signal, and nothing for long when it is killed.

#include "dump/file/temporary.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "dump/file/lock.h"
#include "dump/file/unfinished_files.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"
#include "tests/support/error_of.h"

namespace tilescope::test {
namespace {

/// A process that has run `task` and waits.
class Waiting {
 public:
    explicit Waiting(const std::function<void()>& task) {
        int ready[2];
        EXPECT_EQ(pipe(ready), 0);
        child_ = fork();
        if (child_ == 0) {
            task();
            static_cast<void>(!write(ready[1], "", 1));
            for (;;) pause();
        }
        close(ready[1]);
        char byte = 1;
        EXPECT_EQ(::read(ready[0], &byte, 1), 1);
        close(ready[0]);
    }
    /// Its status, as waitpid gives it.
    int end_by(int signal) const {
        kill(child_, signal);
        int status = 0;
        waitpid(child_, &status, 0);
        return status;
    }

 private:
    pid_t child_ = -1;
};

mode_t mode_of(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
}

class TemporaryFiles : public testing::Test {
 protected:
    /// A process that writes the file and has not finished.
    void begin_to_write() const { new TemporaryFile(path); }

    TemporaryFolder folder;
    std::string path = folder.file("run.h5");
};

TEST_F(TemporaryFiles, GoWithTheSignalThatEndsTheirProcess) {
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
        const Waiting writer([&] {
            remove_unfinished_files_on_signals();
            begin_to_write();
            new TemporaryFile(path);
            std::filesystem::current_path("/");
        });
        EXPECT_EQ(folder.names().size(), 2u);
        const int status = writer.end_by(signal);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
        EXPECT_TRUE(folder.names().empty());
    }
}

TEST_F(TemporaryFiles, LeaveTheHandlersOfTheirProgramAlone) {
    const Waiting writer([&] {
        std::signal(SIGTERM, [](int) { _exit(42); });
        std::signal(SIGHUP, SIG_IGN);
        remove_unfinished_files_on_signals();
        begin_to_write();
        raise(SIGHUP);
    });
    const int status = writer.end_by(SIGTERM);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
}

TEST_F(TemporaryFiles, AreNotThoseOfACopyOfTheProcess) {
    remove_unfinished_files_on_signals();
    TemporaryFile file(path);
    const Waiting copy([] {});
    copy.end_by(SIGTERM);
    EXPECT_EQ(folder.names().size(), 1u);
    file.commit();
    EXPECT_EQ(folder.names(), std::vector<std::string>{"run.h5"});
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
}

TEST_F(TemporaryFiles, OfKilledWritersGoWithTheNextOne) {
    Waiting([&] { begin_to_write(); }).end_by(SIGKILL);
    Waiting([&] { begin_to_write(); }).end_by(SIGKILL);
    EXPECT_FALSE(folder.names().empty());
    for (const char* other :
         {"run.h5.12.partial.h5", "run.h5.partial", "other.h5.12.partial", "run.h5.x.partial"})
        std::ofstream(folder.file(other)) << "not of this writer";
    std::filesystem::create_directory(folder.file("run.h5.7.partial"));
    std::filesystem::create_symlink("run.h5.partial", folder.file("run.h5.8.partial"));
    TemporaryFile(path).commit();
    EXPECT_EQ(folder.names(), (std::vector<std::string>{
                                  "other.h5.12.partial", "run.h5", "run.h5.12.partial.h5", "run.h5.7.partial",
                                  "run.h5.8.partial", "run.h5.partial", "run.h5.x.partial"}));
}

TEST_F(TemporaryFiles, OfLivingWritersStay) {
    const Waiting writer([&] { begin_to_write(); });
    const std::vector<std::string> before = folder.names();
    ASSERT_EQ(before.size(), 1u);
    const TemporaryFile mine(path);
    EXPECT_EQ(folder.names().size(), 2u);
    TemporaryFile(path).commit();
    EXPECT_EQ(folder.names().size(), 3u);
    writer.end_by(SIGKILL);
}

TEST_F(TemporaryFiles, AreTheirOwnersUntilTheyHaveTheirName) {
    const mode_t before = umask(027);
    {
        TemporaryFile file(path);
        EXPECT_EQ(mode_of(file.path()), 0600u);
        file.commit();
    }
    EXPECT_EQ(mode_of(path), 0640u);
    for (const mode_t mode : {0600u, 0664u, 0444u}) {
        ASSERT_EQ(chmod(path.c_str(), mode), 0);
        TemporaryFile file(path);
        EXPECT_EQ(mode_of(file.path()), 0600u);
        file.commit();
        EXPECT_EQ(mode_of(path), mode);
    }
    umask(before);
}

TEST_F(TemporaryFiles, DoNotReplaceWhatIsHeld) {
    std::ofstream(path) << "the sink of a run";
    const int held = open(path.c_str(), O_RDWR | O_CLOEXEC);
    TemporaryFile begun_before(path);
    ASSERT_EQ(hold_file(held), 0);
    const std::string refused =
        path +
        ": holds the tiles of a run that has not ended; choose another output file, or "
        "wait for the run";
    EXPECT_EQ(error_of([&] { TemporaryFile file(path); }), refused);
    EXPECT_EQ(error_of([&] { begun_before.commit(); }), refused);
    close(held);
    TemporaryFile(path).commit();
    EXPECT_EQ(std::filesystem::file_size(path), 0u);
}

}  // namespace
}  // namespace tilescope::test
