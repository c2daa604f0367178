#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/report/formats.h"
#include "oracle/report/output_file.h"

namespace tilescope {

/// A report and where it goes.
struct ReportOutput {
    const ReportFormat* format = nullptr;
    std::string path;

    bool is_stdout() const { return path == "-"; }
};

/// Of NAME=FILE; no format where that is none.
ReportOutput report_output(const std::string& text);

/// "text (what is printed), json (for programs)"
std::string names_of_formats();

/// Parts of a report that wait on the disk until its head can be written.
class WaitingParts {
 public:
    /// Errors: both throw Error when there is no room for it, naming `path`, what it is for.
    void add(const std::string& part, std::string_view between, const std::string& path);
    /// All of them, piece by piece, to `take`.
    template <class Take>
    void each_piece(const std::string& path, const Take& take) const {
        std::string piece(std::size_t(1) << 20, '\0');
        for (std::size_t at = 0; at < size_; at += piece.size()) {
            piece.resize(std::min(piece.size(), size_ - at));
            read(at, piece, path);
            take(std::string_view(piece));
        }
    }

 private:
    void read(std::size_t at, std::span<char> piece, const std::string& path) const;

    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    std::unique_ptr<std::FILE, Close> file_;
    std::size_t size_ = 0;
};

/// Reports that appear whole, or not at all.
class ReportFiles {
 public:
    /// Nothing is there before it is written. Errors: Error where a file cannot be there, or two reports go to stdout.
    void open(const std::vector<ReportOutput>& outputs);

    std::span<const ReportOutput> outputs() const { return outputs_; }
    bool to_stdout() const;

    /// What the report of one recording is, for each output; Errors: Error where one cannot be written. So below.
    void write_alone(std::span<const std::string> reports);
    /// The parts of the next recording, for each output.
    void add(std::span<const std::string> parts);
    void write(std::span<const JudgedRecording> all);

 private:
    std::vector<std::unique_ptr<OutputFile>> files() const;  ///< null for stdout

    std::vector<ReportOutput> outputs_;
    std::vector<WaitingParts> waiting_;
};

/// Also when the reader of a pipe has gone, or the disk is full. Errors: Error.
void write_to_stdout(std::string_view text);

}  // namespace tilescope
