#include "oracle/report/outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

[[noreturn]] void fail_to_wait(const std::string& path) {
    throw Error(std::string("its parts cannot be kept: ") + std::strerror(errno), path,
                "free space for temporary files");
}

}  // namespace

ReportOutput report_output(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return {};
    return {report_format(std::string_view(text).substr(0, equals)), text.substr(equals + 1)};
}

std::string names_of_formats() {
    std::string names;
    for (const ReportFormat& format : report_formats())
        names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", format.name, format.says);
    return names;
}

void WaitingParts::add(const std::string& part, std::string_view between, const std::string& path) {
    if (part.empty()) return;
    if (!file_) file_.reset(std::tmpfile());
    if (!file_) fail_to_wait(path);
    const std::string text = size_ == 0 ? part : std::string(between) + part;
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0)
        fail_to_wait(path);
    size_ += text.size();
}

void WaitingParts::read(std::size_t at, std::span<char> piece, const std::string& path) const {
    while (!piece.empty()) {
        const ssize_t count = ::pread(::fileno(file_.get()), piece.data(), piece.size(), off_t(at));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) fail_to_wait(path);
        piece = piece.subspan(std::size_t(count));
        at += std::size_t(count);
    }
}

void ReportFiles::open(const std::vector<ReportOutput>& outputs) {
    for (const ReportOutput& output : outputs) {
        if (output.is_stdout() && to_stdout())
            throw Error("two reports go to stdout", "--report", "give one of them a file");
        // Nothing is left of it by who is killed meanwhile.
        if (!output.is_stdout()) OutputFile(output.path);
        outputs_.push_back(output);
        waiting_.emplace_back();
    }
}

std::vector<std::unique_ptr<OutputFile>> ReportFiles::files() const {
    std::vector<std::unique_ptr<OutputFile>> files;
    for (const ReportOutput& output : outputs_)
        files.push_back(output.is_stdout() ? nullptr : std::make_unique<OutputFile>(output.path));
    return files;
}

bool ReportFiles::to_stdout() const {
    return std::ranges::any_of(outputs_, &ReportOutput::is_stdout);
}

void ReportFiles::write_alone(std::span<const std::string> reports) {
    const std::vector<std::unique_ptr<OutputFile>> to = files();
    for (std::size_t i = 0; i < to.size(); ++i) {
        if (!to[i]) continue;
        to[i]->write(reports[i]);
        to[i]->commit();
    }
    for (std::size_t i = 0; i < to.size(); ++i)
        if (!to[i]) write_to_stdout(reports[i]);
}

void ReportFiles::add(std::span<const std::string> parts) {
    for (std::size_t i = 0; i < outputs_.size(); ++i)
        waiting_[i].add(parts[i], outputs_[i].format->between, outputs_[i].path);
}

void ReportFiles::write(std::span<const JudgedRecording> all) {
    const std::vector<std::unique_ptr<OutputFile>> to = files();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        std::uint64_t written = 0;
        const auto add = [&](std::string_view text) {
            if (to[i]) {
                to[i]->write_at(written, std::as_bytes(std::span(text)));
            } else {
                write_to_stdout(text);
            }
            written += text.size();
        };
        add(outputs_[i].format->head(all));
        waiting_[i].each_piece(outputs_[i].path, add);
        add(outputs_[i].format->tail(all));
        if (to[i]) to[i]->commit();
    }
}

void write_to_stdout(std::string_view text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (!written || std::fflush(stdout) != 0) {
        throw Error(std::string("cannot be written: ") + std::strerror(errno), "stdout",
                    "redirect it to a place that can be written");
    }
}

}  // namespace tilescope
