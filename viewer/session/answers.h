#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

namespace tilescope::viewer {

/// What panels asked for and the answers so far, of one sort: the newest question is answered first, the
/// oldest answer is forgotten. Not thread-safe: its owner holds a lock.
template <class Key, class Value>
class Answers {
 public:
    explicit Answers(std::size_t capacity) : capacity_(capacity) {}

    /// Null until it is answered.
    std::shared_ptr<const Value> ask(const Key& key) {
        const auto known = find(key);
        if (known != entries_.end()) {
            Entry entry = *known;
            entries_.erase(known);
            entries_.push_back(entry);
            return entry.value;
        }
        if (entries_.size() >= capacity_) entries_.pop_front();
        entries_.push_back({key, nullptr, State::waiting});
        return nullptr;
    }
    std::optional<Key> take() {
        const auto newest = std::find_if(entries_.rbegin(), entries_.rend(), is_waiting);
        if (newest == entries_.rend()) return std::nullopt;
        newest->state = State::taken;
        return newest->key;
    }
    /// Null: there is no answer.
    void put(const Key& key, std::shared_ptr<const Value> value) {
        const auto known = find(key);
        if (known == entries_.end()) return;
        known->value = std::move(value);
        known->state = State::answered;
    }
    /// Work on the answer was stopped: the next ask() starts it again, unless give_up() was called.
    void forget(const Key& key) {
        const auto known = find(key);
        if (known != entries_.end() && known->state == State::taken) entries_.erase(known);
    }
    bool waiting() const { return std::any_of(entries_.begin(), entries_.end(), is_waiting); }
    /// Stops answering what waits, however often it is asked, until ask_again().
    void give_up() {
        for (Entry& entry : entries_)
            if (entry.state != State::answered) entry.state = State::given_up;
    }
    void ask_again() {
        std::erase_if(entries_, [](const Entry& entry) { return entry.state == State::given_up; });
    }
    void clear() { entries_.clear(); }

 private:
    enum class State { waiting, taken, answered, given_up };
    struct Entry {
        Key key;
        std::shared_ptr<const Value> value;
        State state;
    };
    static bool is_waiting(const Entry& entry) { return entry.state == State::waiting; }
    auto find(const Key& key) {
        return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
    }

    std::size_t capacity_;
    std::deque<Entry> entries_;  ///< the newest last
};

}  // namespace tilescope::viewer
