#include "oracle/remote/disks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "dump/reader.h"
#include "dump/schema/error.h"
#include "oracle/judge/bytes.h"
#include "oracle/judge/tally_bytes.h"
#include "oracle/remote/recording_server.h"
#include "oracle/remote/remote_recording.h"

namespace tilescope {

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, FileOnDisk>
void each_field(Io& io, Of& file) {
    auto& [path, bytes, changed] = file;
    io(path, bytes, changed);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, OnDisk>
void each_field(Io& io, Of& found) {
    auto& [kind, files, not_searched] = found;
    io(kind, files, not_searched);
}

Disks::Disks(const std::vector<std::string>& paths, WorkSharing& sharing) : sharing_(sharing) {
    // Of each process, what it finds under each path.
    std::vector<std::vector<OnDisk>> found(std::size_t(sharing.processes()));
    std::vector<OnDisk>& mine = found[std::size_t(sharing.process())];
    std::ranges::transform(paths, std::back_inserter(mine), look_at);
    fold(sharing, found, [](auto part, auto& whole) {
        for (std::size_t i = 0; i < whole.size(); ++i)
            if (!part[i].empty()) whole[i] = std::move(part[i]);
    });
    for (std::size_t process = 0; process < found.size(); ++process)
        for (std::size_t i = 0; i < paths.size(); ++i) add(paths[i], found[process][i], int(process));
}

void Disks::add(const std::string& path, const OnDisk& found, int process) {
    Together& all = paths_[path];
    all.kind = std::max(all.kind, found.kind);
    for (const FileOnDisk& file : found.files) {
        Copies& copies = files_[file.path];
        const auto is_same = [&](const FileOnDisk& other) {
            return other.bytes == file.bytes && other.changed == file.changed;
        };
        const auto known = std::ranges::find_if(copies.files, is_same);
        const auto number = std::size_t(known - copies.files.begin());
        if (known == copies.files.end()) {
            copies.files.push_back(file);
            copies.processes.emplace_back();
        }
        std::vector<int>& processes = copies.processes[number];
        if (processes.empty() || processes.back() != process) processes.push_back(process);
        all.files.insert(file.path);
    }
    all.not_searched.insert(found.not_searched.begin(), found.not_searched.end());
}

OnDisk Disks::at(const std::string& path) const {
    const auto known = paths_.find(path);
    if (known == paths_.end()) return look_at(path);
    const Together& together = known->second;
    OnDisk found{together.kind, {}, {together.not_searched.begin(), together.not_searched.end()}};
    for (const std::string& file : together.files) found.files.push_back(files_.at(file).files.front());
    return found;
}

std::vector<int> Disks::who_has(const std::string& file) const {
    const auto known = files_.find(file);
    if (known != files_.end()) return known->second.processes.front();
    std::vector<int> all(std::size_t(sharing_.processes()));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

std::map<std::string, int> Disks::homes() const {
    std::map<std::string, int> homes;
    for (const auto& [file, copies] : files_)
        if (std::ssize(copies.processes.front()) < sharing_.processes())
            homes[file] = copies.processes.front().front();
    return homes;
}

std::int64_t Disks::bytes_of(const std::string& file) const {
    const auto known = files_.find(file);
    return known == files_.end() ? 0 : known->second.files.front().bytes;
}

std::string Disks::conflict(const std::string& file) const {
    const auto known = files_.find(file);
    if (known == files_.end() || known->second.files.size() == 1) return "";
    const Copies& copies = known->second;
    const auto of = [&](std::size_t i) { return sharing_.name_of(copies.processes[i].front()); };
    return Error(fmt::format("{} and {} have different files of that name, of {} and {} bytes", of(0), of(1),
                             copies.files[0].bytes, copies.files[1].bytes),
                 file, "give them different names, or copy one with its time, as cp -p does")
        .what();
}

namespace {

std::unique_ptr<Recording> open_here(const std::string& path, bool is_tried) {
    return is_tried ? open_tried_recording(path) : open_recording(path);
}

}  // namespace

std::unique_ptr<Recording> open_from(const Disks& disks, WorkSharing& sharing, const std::string& path,
                                     bool is_tried) {
    const std::vector<int> who = disks.who_has(path);
    if (std::ranges::find(who, sharing.process()) != who.end()) return open_here(path, is_tried);
    return open_remote(sharing, who[std::size_t(sharing.process()) % who.size()], path, is_tried);
}

void share_disks(const Disks& disks, WorkSharing& sharing) {
    std::map<std::string, int> homes = disks.homes();
    if (homes.empty()) return;
    std::set<int> mine;
    for (const auto& [file, home] : homes) {
        const std::vector<int> who = disks.who_has(file);
        if (std::ranges::find(who, sharing.process()) != who.end()) mine.insert(home);
    }
    sharing.settle(std::move(homes), std::move(mine));
    const auto server = std::make_shared<RecordingServer>(open_here);
    sharing.answer_with([server](std::string_view question) { return server->answer(question); });
    // Nobody asks who does not answer yet.
    sharing.agree(nullptr);
}

}  // namespace tilescope
