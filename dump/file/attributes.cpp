#include "dump/file/attributes.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "dump/file/hdf5.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope::hdf5 {

void refuse(const std::string& what, const std::string& where) {
    throw Error(what, where, damaged_advice);
}

namespace {

constexpr std::size_t longest_text = std::size_t(1) << 20;

[[noreturn]] void refuse_attribute(const char* name, const std::string& what, const std::string& where) {
    throw Error("attribute " + std::string(name) + " " + what, where, damaged_advice);
}

struct Attribute {
    Id id;
    Id type;
    H5T_class_t kind = H5T_NO_CLASS;
    std::size_t bytes = 0;  ///< of an element
    std::size_t elements = 0;
    int rank = 0;
};

std::optional<Attribute> open_any(hid_t object, const char* name, const std::string& where) {
    const htri_t exists = H5Aexists(object, name);
    if (exists < 0) refuse_attribute(name, "cannot be looked up (" + last_error() + ")", where);
    if (exists == 0) return std::nullopt;
    Attribute attribute;
    attribute.id = Id(H5Aopen(object, name, H5P_DEFAULT));
    if (!attribute.id) refuse_attribute(name, "cannot be opened (" + last_error() + ")", where);
    attribute.type = Id(H5Aget_type(attribute.id.get()));
    const Id space(H5Aget_space(attribute.id.get()));
    if (!attribute.type || !space) refuse_attribute(name, "cannot be read (" + last_error() + ")", where);
    const hssize_t elements = H5Sget_simple_extent_npoints(space.get());
    attribute.rank = H5Sget_simple_extent_ndims(space.get());
    if (elements < 0 || attribute.rank < 0)
        refuse_attribute(name, "cannot be read (" + last_error() + ")", where);
    attribute.elements = static_cast<std::size_t>(elements);
    attribute.kind = H5Tget_class(attribute.type.get());
    attribute.bytes = H5Tget_size(attribute.type.get());
    if (attribute.bytes == 0) refuse_attribute(name, "cannot be read (" + last_error() + ")", where);
    return attribute;
}

std::optional<Attribute> open_attribute(hid_t object, const char* name, const std::string& where) {
    std::optional<Attribute> attribute = open_any(object, name, where);
    if (attribute && attribute->elements != 1) refuse_attribute(name, "has not exactly one element", where);
    return attribute;
}

// HDF5 converts any integer to any other; only those that it cannot get wrong are let through.
template <class Value>
Value read_value(const Attribute& attribute, hid_t memory_type, const char* name, const std::string& where) {
    Value value = {};
    if (H5Aread(attribute.id.get(), memory_type, &value) < 0) {
        refuse_attribute(name, "cannot be read (" + last_error() + ")", where);
    }
    return value;
}

bool is_standard_float(hid_t type) {
    return H5Tequal(type, H5T_IEEE_F64LE) > 0 || H5Tequal(type, H5T_IEEE_F32LE) > 0;
}

bool is_standard_integer(const Attribute& attribute) {
    return attribute.kind == H5T_INTEGER && attribute.bytes <= sizeof(std::int64_t) &&
           H5Tget_precision(attribute.type.get()) == 8 * attribute.bytes;
}

std::vector<std::string> read_variable_texts(const Attribute& attribute, const char* name,
                                             const std::string& where) {
    const Id memory_type(H5Tcopy(H5T_C_S1));
    H5Tset_size(memory_type.get(), H5T_VARIABLE);
    H5Tset_cset(memory_type.get(), H5Tget_cset(attribute.type.get()));
    std::vector<char*> texts(attribute.elements, nullptr);
    if (H5Aread(attribute.id.get(), memory_type.get(), texts.data()) < 0) {
        refuse_attribute(name, "cannot be read (" + last_error() + ")", where);
    }
    std::vector<std::string> copies;
    for (char* text : texts) {
        copies.emplace_back(text == nullptr ? "" : text);
        H5free_memory(text);
    }
    const auto is_too_long = [](const std::string& text) { return text.size() > longest_text; };
    if (std::ranges::any_of(copies, is_too_long)) refuse_attribute(name, "is longer than 1 MiB", where);
    return copies;
}

std::vector<std::string> read_fixed_texts(const Attribute& attribute, const char* name,
                                          const std::string& where) {
    if (attribute.bytes > longest_text) refuse_attribute(name, "is longer than 1 MiB", where);
    std::vector<char> texts(attribute.elements * attribute.bytes);
    if (H5Aread(attribute.id.get(), attribute.type.get(), texts.data()) < 0) {
        refuse_attribute(name, "cannot be read (" + last_error() + ")", where);
    }
    const bool padded = H5Tget_strpad(attribute.type.get()) == H5T_STR_SPACEPAD;
    std::vector<std::string> copies;
    for (auto first = texts.begin(); first != texts.end(); first += std::ptrdiff_t(attribute.bytes)) {
        std::string copy(first, std::find(first, first + std::ptrdiff_t(attribute.bytes), '\0'));
        if (padded) copy.erase(copy.find_last_not_of(' ') + 1);
        copies.push_back(std::move(copy));
    }
    return copies;
}

std::vector<std::string> read_all_texts(const Attribute& attribute, const char* name,
                                        const std::string& where) {
    if (attribute.kind != H5T_STRING) refuse_attribute(name, "is not text", where);
    const bool variable = H5Tis_variable_str(attribute.type.get()) > 0;
    return variable ? read_variable_texts(attribute, name, where) : read_fixed_texts(attribute, name, where);
}

void write_attribute(hid_t object, const char* name, hid_t type, hid_t space, const void* value) {
    const Id attribute = checked(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    check(H5Awrite(attribute.get(), type, value));
}

void write_attribute(hid_t object, const char* name, hid_t type, const void* value) {
    const Id space = checked(H5Screate(H5S_SCALAR));
    write_attribute(object, name, type, space.get(), value);
}

// h5py gives str for text of variable length in UTF-8, and bytes for any other.
Id text_type() {
    Id type = checked(H5Tcopy(H5T_C_S1));
    check(H5Tset_size(type.get(), H5T_VARIABLE));
    check(H5Tset_cset(type.get(), H5T_CSET_UTF8));
    return type;
}

}  // namespace

std::optional<std::string> read_text(hid_t object, const char* name, const std::string& where) {
    const std::optional<Attribute> attribute = open_attribute(object, name, where);
    if (!attribute) return std::nullopt;
    return read_all_texts(*attribute, name, where).front();
}

// Texts of variable length are only known to be long once they are read.
std::vector<std::string> read_texts(hid_t object, const char* name, const std::string& where,
                                    std::size_t longest) {
    const std::optional<Attribute> attribute = open_any(object, name, where);
    // h5py writes an empty list as one of numbers.
    if (!attribute || attribute->elements == 0) return {};
    if (attribute->rank > 1)
        refuse_attribute(name, "is not a list, but has " + std::to_string(attribute->rank) + " dimensions",
                         where);
    if (attribute->elements > longest) {
        refuse_attribute(
            name,
            "lists " + std::to_string(attribute->elements) + " texts, more than " + std::to_string(longest),
            where);
    }
    return read_all_texts(*attribute, name, where);
}

std::optional<std::int64_t> read_integer(hid_t object, const char* name, const std::string& where) {
    const std::optional<Attribute> attribute = open_attribute(object, name, where);
    if (!attribute) return std::nullopt;
    if (!is_standard_integer(*attribute)) refuse_attribute(name, "is not an integer", where);
    return read_value<std::int64_t>(*attribute, H5T_NATIVE_INT64, name, where);
}

std::optional<double> read_number(hid_t object, const char* name, const std::string& where) {
    const std::optional<Attribute> attribute = open_attribute(object, name, where);
    if (!attribute) return std::nullopt;
    if (is_standard_integer(*attribute)) {
        return static_cast<double>(read_value<std::int64_t>(*attribute, H5T_NATIVE_INT64, name, where));
    }
    if (!is_standard_float(attribute->type.get()))
        refuse_attribute(name, "is not a float64 or float32 number", where);
    return read_value<double>(*attribute, H5T_NATIVE_DOUBLE, name, where);
}

std::optional<bool> read_flag(hid_t object, const char* name, const std::string& where) {
    const std::optional<Attribute> attribute = open_attribute(object, name, where);
    if (!attribute) return std::nullopt;
    std::int64_t value = 0;
    if (attribute->kind == H5T_ENUM && attribute->bytes == 1) {
        // h5py writes a bool as an enumeration over one byte, 0 or 1.
        value = read_value<std::uint8_t>(*attribute, attribute->type.get(), name, where);
    } else if (is_standard_integer(*attribute)) {
        value = read_value<std::int64_t>(*attribute, H5T_NATIVE_INT64, name, where);
    } else {
        refuse_attribute(name, "is not a flag", where);
    }
    if (value != 0 && value != 1)
        refuse_attribute(name, "is " + std::to_string(value) + ", not 0 or 1", where);
    return value == 1;
}

template <class Enum>
std::optional<Enum> read_name(hid_t object, const char* name, const std::string& where) {
    const std::optional<std::string> text = read_text(object, name, where);
    if (!text) return std::nullopt;
    const std::optional<Enum> value = declarations::value_of<Enum>(*text);
    if (value) return value;
    std::string known;
    for (const auto& entry : declarations::names(Enum())) {
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
    }
    refuse_attribute(name, "is \"" + shortened(*text) + "\", not one of " + known, where);
}

template std::optional<Direction> read_name(hid_t, const char*, const std::string&);
template std::optional<Axis> read_name(hid_t, const char*, const std::string&);
template std::optional<Mask> read_name(hid_t, const char*, const std::string&);
template std::optional<CausalAlignment> read_name(hid_t, const char*, const std::string&);
template std::optional<WindowBounds> read_name(hid_t, const char*, const std::string&);
template std::optional<Alibi> read_name(hid_t, const char*, const std::string&);
template std::optional<AttentionSink> read_name(hid_t, const char*, const std::string&);
template std::optional<HeadGrouping> read_name(hid_t, const char*, const std::string&);
template std::optional<DescaleInP> read_name(hid_t, const char*, const std::string&);
template std::optional<LogBase> read_name(hid_t, const char*, const std::string&);
template std::optional<KvOrder> read_name(hid_t, const char*, const std::string&);
template std::optional<Accumulation> read_name(hid_t, const char*, const std::string&);
template std::optional<ExpFunction> read_name(hid_t, const char*, const std::string&);
template std::optional<TanhFunction> read_name(hid_t, const char*, const std::string&);
template std::optional<EmptyRow> read_name(hid_t, const char*, const std::string&);
template std::optional<Dtype> read_name(hid_t, const char*, const std::string&);
template std::optional<ShardKind> read_name(hid_t, const char*, const std::string&);

void write_text(hid_t object, const char* name, std::string_view value) {
    const Id type = text_type();
    const std::string copy(value);
    const char* text = copy.c_str();
    write_attribute(object, name, type.get(), &text);
}

void write_texts(hid_t object, const char* name, std::span<const std::string> values) {
    const Id type = text_type();
    std::vector<const char*> texts;
    for (const std::string& value : values) texts.push_back(value.c_str());
    const hsize_t count = texts.size();
    const Id space = checked(H5Screate_simple(1, &count, nullptr));
    write_attribute(object, name, type.get(), space.get(), texts.data());
}

void write_integer(hid_t object, const char* name, std::int64_t value) {
    write_attribute(object, name, H5T_STD_I64LE, &value);
}

void write_number(hid_t object, const char* name, double value) {
    write_attribute(object, name, H5T_IEEE_F64LE, &value);
}

void write_flag(hid_t object, const char* name, bool value) {
    const Id type = checked(H5Tenum_create(H5T_STD_I8LE));
    const std::int8_t no = 0;
    const std::int8_t yes = 1;
    check(H5Tenum_insert(type.get(), "FALSE", &no));
    check(H5Tenum_insert(type.get(), "TRUE", &yes));
    const std::int8_t stored = value ? yes : no;
    write_attribute(object, name, type.get(), &stored);
}

}  // namespace tilescope::hdf5
