#pragma once

// Attributes: text, integers, numbers and flags of one element, and lists of text, as h5py reads and writes
// them.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dump/file/layout.h"
#include "dump/schema/declarations.h"

namespace tilescope::hdf5 {

/// What readers of the file are told to do about it.
inline constexpr const char* damaged_advice = "record it again, or write it as dump/FORMAT.md says";

/// Errors: Error that says so.
[[noreturn]] void refuse(const std::string& what, const std::string& where);

/// Each reads the attribute `name` of `object`, nullopt when there is none. `where` names the object.
/// Errors: Error for an attribute of another type, of several elements, or one that cannot be read.
std::optional<std::string> read_text(hid_t object, const char* name, const std::string& where);
std::optional<std::int64_t> read_integer(hid_t object, const char* name, const std::string& where);
std::optional<double> read_number(hid_t object, const char* name, const std::string& where);
std::optional<bool> read_flag(hid_t object, const char* name, const std::string& where);

/// A list of text, or one text; empty when there is no such attribute. Errors: as above, and Error for a list
/// that is longer than `longest`.
std::vector<std::string> read_texts(hid_t object, const char* name, const std::string& where,
                                    std::size_t longest = 64);

/// Reads the name of an enumerator. Errors: as above, and Error for a name that the table does not have.
template <class Enum>
std::optional<Enum> read_name(hid_t object, const char* name, const std::string& where);

/// Each writes a new attribute of `object`. Errors: Failure.
void write_text(hid_t object, const char* name, std::string_view value);
void write_texts(hid_t object, const char* name, std::span<const std::string> values);
void write_integer(hid_t object, const char* name, std::int64_t value);
void write_number(hid_t object, const char* name, double value);
void write_flag(hid_t object, const char* name, bool value);

}  // namespace tilescope::hdf5
