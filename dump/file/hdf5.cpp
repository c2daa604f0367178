#include "dump/file/hdf5.h"

#include <mutex>

#include "dump/schema/text.h"

namespace tilescope::hdf5 {

namespace {

std::mutex& library_mutex() {
    static std::mutex mutex;
    return mutex;
}

// Not a recursive mutex: its owner would be another thread in a copy of the process (file_trial.h).
thread_local int sessions = 0;

herr_t copy_description(unsigned depth, const H5E_error2_t* error, void* text) {
    if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
    return 0;
}

struct FloatFields {
    std::size_t bytes;
    std::size_t exponent_bits;
    std::size_t mantissa_bits;
    std::size_t exponent_bias;
};

Id small_float(const FloatFields& fields) {
    Id type = checked(H5Tcopy(H5T_IEEE_F32LE));
    const std::size_t sign = fields.exponent_bits + fields.mantissa_bits;
    check(
        H5Tset_fields(type.get(), sign, fields.mantissa_bits, fields.exponent_bits, 0, fields.mantissa_bits));
    check(H5Tset_size(type.get(), fields.bytes));
    check(H5Tset_ebias(type.get(), fields.exponent_bias));
    return type;
}

}  // namespace

Session::Session() {
    if (sessions++ == 0) library_mutex().lock();
    // A driver that is still registered, or what a damaged file has left, lets HDF5 1.10 complain when the program
    // ends. Everything of ours is closed by then. The call only works before any other.
    static const herr_t no_exit_handler = H5dont_atexit();
    static_cast<void>(no_exit_handler);
    H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() {
    H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
    if (--sessions == 0) library_mutex().unlock();
}

PluginsOff::PluginsOff() {
    H5PLget_loading_state(&before_);
    H5PLset_loading_state(0);
}

PluginsOff::~PluginsOff() {
    H5PLset_loading_state(before_);
}

void Id::close() {
    if (id_ >= 0) H5Idec_ref(id_);
    id_ = H5I_INVALID_HID;
}

std::string last_error() {
    std::string text;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, copy_description, &text);
    return text.empty() ? "no reason given" : shortened(text);
}

Id creation_properties(hid_t property_class) {
    Id properties = checked(H5Pcreate(property_class));
    check(H5Pset_obj_track_times(properties.get(), false));
    check(H5Pset_attr_phase_change(properties.get(), 64, 0));
    if (H5Pisa_class(properties.get(), H5P_GROUP_CREATE) > 0) {
        check(H5Pset_link_phase_change(properties.get(), 64, 0));
    }
    return properties;
}

Id create_group(hid_t file, const std::string& path) {
    const Id properties = creation_properties(H5P_GROUP_CREATE);
    return checked(H5Gcreate2(file, path.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
}

Id element_type(Dtype dtype) {
    const DtypeInfo& info = dtype_info(dtype);
    if (info.bytes == 4) return checked(H5Tcopy(H5T_IEEE_F32LE));
    // HDF5 has no floats of 8 bits: their codes.
    if (info.bytes == 1) return checked(H5Tcopy(H5T_STD_U8LE));
    const std::size_t mantissa_bits = std::size_t(info.significand_bits - 1);
    return small_float({std::size_t(info.bytes), 8 * std::size_t(info.bytes) - 1 - mantissa_bits,
                        mantissa_bits, std::size_t(1 - info.min_exponent)});
}

}  // namespace tilescope::hdf5
