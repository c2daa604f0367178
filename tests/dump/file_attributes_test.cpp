// Attributes, and the lists of /capture, that are missing, absurd or unknown.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/dump/spoiled_file.h"

namespace tilescope::test {
namespace {

using FileAttributes = SpoiledFile;

TEST_F(FileAttributes, Format) {
    expect_spoiled([](hid_t file) { set_integer(file, "/", "format", 1); }, "",
                   "attribute format is not text");
    expect_spoiled([](hid_t file) { set_integer(file, "/", "format_version", 2); }, "",
                   "has format_version 2; this program reads up to 1");
    expect_spoiled([](hid_t file) { set_integer(file, "/", "format_version", 0); }, "", "format_version 0");
    expect_spoiled([](hid_t file) { set_text(file, "/", "format_version", "1"); }, "",
                   "attribute format_version is not an integer");
    expect_spoiled([](hid_t file) { delete_attribute(file, "/", "format_version"); }, "",
                   "has no attribute format_version");
    expect_spoiled([](hid_t file) { delete_attribute(file, "/", "complete"); }, "", "was not completed");
    expect_spoiled([](hid_t file) { set_integer(file, "/", "complete", 0); }, "", "was not completed");
}

// A declaration of a later Tilescope, and what is no list of declarations.
TEST_F(FileAttributes, Requires) {
    const char* const later = "/tiles/s/kept_in_tf32";
    const std::string unknown = std::string("cannot be understood without ") + later;
    expect_spoiled([&](hid_t file) { set_text(file, "/", "requires", later); }, "", unknown);
    for (const std::size_t bytes : {0, 40}) {
        expect_spoiled(
            [&](hid_t file) {
                set_texts(file, "/", "requires", {"/problem/kv_order", later, "/inputs/dropout"}, bytes);
            },
            "", unknown + ", /inputs/dropout (attribute requires)");
    }
    // Another object's, a name that is not a path, and a name that only begins like a known one.
    for (const char* name : {"/tiles/m/accumulation", "kv_order", "/problem/kv_order2", "/problem", " "}) {
        expect_spoiled([&](hid_t file) { set_texts(file, "/", "requires", {name}); }, "",
                       std::string("cannot be understood without ") + name);
    }
    expect_spoiled([](hid_t file) { set_text(file, "/", "requires", std::string(5000, 'r')); }, "", "rrr...");
    expect_spoiled([](hid_t file) { set_integer(file, "/", "requires", 1); }, "",
                   "attribute requires is not text");
    expect_spoiled([&](hid_t file) { set_texts(file, "/", "requires", std::vector<std::string>(65, later)); },
                   "", "attribute requires lists 65 texts, more than 64");
    expect_spoiled([](hid_t file) { set_text(file, "/", "requires", std::string(2 << 20, 'r')); }, "",
                   "attribute requires is longer than 1 MiB");
    expect_spoiled(
        [](hid_t file) {
            const Handle owner(H5Oopen(file, "/", H5P_DEFAULT));
            const hsize_t sizes[] = {2, 2};
            const Handle space(H5Screate_simple(2, sizes, nullptr));
            const Handle attribute(H5Acreate2(owner, "requires", H5T_C_S1, space, H5P_DEFAULT, H5P_DEFAULT));
        },
        "", "attribute requires is not a list, but has 2 dimensions");
}

TEST_F(FileAttributes, RequiresWhatIsKnown) {
    const std::vector<std::string> known = {"/problem/kv_order", "/tiles/s/log_base", "/inputs/bias"};
    const auto accepts = [&](const std::function<void(hid_t)>& change) {
        write_spoiled_dump(path, change);
        EXPECT_EQ(refusal(path), "");
    };
    accepts([&](hid_t file) { set_texts(file, "/", "requires", known); });
    accepts([&](hid_t file) { set_texts(file, "/", "requires", known, 20); });
    accepts([&](hid_t file) { set_text(file, "/", "requires", known.front()); });
    accepts([](hid_t file) { set_text(file, "/", "requires", ""); });
    accepts([](hid_t file) { set_texts(file, "/", "requires", {}); });
    accepts([](hid_t file) {
        const Handle owner(H5Oopen(file, "/", H5P_DEFAULT));
        const Handle space(H5Screate(H5S_NULL));
        const Handle attribute(
            H5Acreate2(owner, "requires", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT));
    });
}

TEST_F(FileAttributes, MissingProblem) {
    expect_spoiled([](hid_t file) { unlink_object(file, "/problem"); }, "/problem", "is missing");
    for (const char* name :
         {"batch", "heads", "seqlen_q", "seqlen_kv", "head_dim", "block_m", "block_n", "sm_scale"}) {
        expect_spoiled([&](hid_t file) { delete_attribute(file, "/problem", name); }, "/problem",
                       std::string("has no attribute ") + name);
    }
}

TEST_F(FileAttributes, AbsurdSizes) {
    for (const char* name : {"batch", "heads", "seqlen_q", "seqlen_kv", "head_dim", "block_m", "block_n"}) {
        for (const std::int64_t size :
             {std::int64_t(1) << 40, std::int64_t(0), std::int64_t(-4),
              std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
            expect_spoiled([&](hid_t file) { set_integer(file, "/problem", name, size); }, "/problem",
                           std::string(name) + " is " + std::to_string(size));
        }
    }
    const std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
    expect_spoiled([&](hid_t file) { set_attribute(file, "/problem", "batch", H5T_STD_U64LE, &huge); },
                   "/problem", "batch is ");
    expect_spoiled(
        [](hid_t file) {
            for (const char* name : {"batch", "heads", "seqlen_q", "seqlen_kv", "head_dim"}) {
                set_integer(file, "/problem", name, 2147483647);
            }
        },
        "/problem", "tiles");
    expect_spoiled([](hid_t file) { set_integer(file, "/problem", "heads_kv", 3); }, "/problem", "heads_kv");
    expect_spoiled([](hid_t file) { set_integer(file, "/problem", "window_left", -2); }, "/problem",
                   "window_left is -2");
}

TEST_F(FileAttributes, SplitsAndLanes) {
    expect_spoiled([](hid_t file) { set_integer(file, "/problem", "kv_tiles_per_split", -1); }, "/problem",
                   "kv_tiles_per_split is -1");
    expect_spoiled([](hid_t file) { set_integer(file, "/problem", "l_lanes", 0); }, "/problem",
                   "l_lanes is 0");
    expect_spoiled([](hid_t file) { set_integer(file, "/problem", "l_lanes", 5); }, "/problem",
                   "l_lanes (5) is larger than block_n (4)");
    expect_spoiled([](hid_t file) { set_integer(file, "/problem", "l_lane_columns", -8); }, "/problem",
                   "l_lane_columns is -8");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "dtype_acc", "e4m3"); }, "/problem",
                   "dtype_acc is e4m3, none of f32, f16 and bf16");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "split_starts", "1,x"); }, "/problem",
                   "split_starts is 1,x, no list of KV tiles");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "split_starts", "2,1"); }, "/problem",
                   "split_starts do not ascend");
    expect_spoiled(
        [](hid_t file) {
            set_integer(file, "/problem", "l_lanes", 2);
            create_dataset(file, "/tiles/l", H5T_IEEE_F32LE, {1, 2, 3, 8}, H5P_DEFAULT, nullptr);
        },
        "/tiles/l", "has shape [1, 2, 3, 8] where /problem asks for [1, 2, 3, 8, 2]");
}

TEST_F(FileAttributes, NumbersOfUnits) {
    struct Number {
        const char* dataset;
        const char* name;
        std::vector<hsize_t> dims;
        bool may_be_zero;
    };
    const Number numbers[] = {
        {"/tiles/m", "stale_threshold", {}, true},       {"/tiles/p", "exp_error", {1, 2, 8, 12}, true},
        {"/tiles/p", "scale", {1, 2, 8, 12}, false},     {"/tiles/l", "scale", {1, 2, 3, 8}, false},
        {"/tiles/acc", "scale", {1, 2, 3, 8, 2}, false},
    };
    for (const Number& number : numbers) {
        const auto with = [&](double value) {
            return [&number, value](hid_t file) {
                if (!number.dims.empty()) {
                    create_dataset(file, number.dataset, H5T_IEEE_F32LE, number.dims, H5P_DEFAULT, nullptr);
                }
                set_number(file, number.dataset, number.name, value);
            };
        };
        for (const double value : {-0.5, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
            expect_spoiled(with(value), number.dataset, std::string(number.name) + " of ");
        }
        write_spoiled_dump(path, with(0));
        EXPECT_EQ(refusal(path).empty(), number.may_be_zero) << number.dataset << " " << number.name;
        write_spoiled_dump(path, with(0.5));
        EXPECT_EQ(refusal(path), "");
    }
}

// The plain dump has none of the optional attributes; the values are those of FORMAT.md.
TEST_F(FileAttributes, Defaults) {
    write_plain_dump(path);
    const auto recording = open_recording(path);
    const Problem& problem = recording->problem();
    EXPECT_EQ(problem.mask, Mask::none);
    EXPECT_EQ(problem.causal_alignment, CausalAlignment::bottom_right);
    EXPECT_EQ(problem.window_bounds, WindowBounds::inclusive);
    EXPECT_EQ(problem.alibi, Alibi::none);
    EXPECT_EQ(problem.sink, AttentionSink::none);
    EXPECT_EQ(problem.kv_tiles_per_split, 0);
    EXPECT_EQ(problem.l_lanes, 1);
    EXPECT_EQ(problem.l_lane_columns, 1);
    const Units& units = recording->units();
    EXPECT_TRUE(units.q_dequantised && units.k_dequantised && units.v_dequantised && units.acc_dequantised);
    EXPECT_TRUE(units.s_scaled && units.s_capped && units.s_biased && units.s_masked && units.m_scaled);
    EXPECT_TRUE(units.lse_includes_sink);
    EXPECT_FALSE(units.l_sums_cast_p);
    for (const Dtype dtype : {units.q_cast, units.k_cast, units.v_cast, units.s_cast, units.p_cast}) {
        EXPECT_EQ(dtype, Dtype::f32);
    }
    EXPECT_EQ(units.s_tanh, TanhFunction::tanhf);
    EXPECT_EQ(units.s_accumulation, Accumulation::fma_f32);
    EXPECT_EQ(units.acc_accumulation, Accumulation::fma_f32);
    EXPECT_EQ(units.p_exp, ExpFunction::expf);
    EXPECT_EQ(units.m_stale_threshold, 0);
    EXPECT_EQ(units.p_exp_error, 0);
    EXPECT_EQ(units.s_masked_value, -std::numeric_limits<double>::infinity());
    for (const double scale : {units.q_scale, units.p_scale, units.l_scale, units.acc_scale})
        EXPECT_EQ(scale, 1);
    EXPECT_EQ(units.o_empty_row, EmptyRow::zero);
    EXPECT_EQ(units.lse_empty_row, EmptyRow::minus_infinity);
    EXPECT_EQ(units.kv_order, KvOrder::forward);
    EXPECT_EQ(recording->side_inputs(), SideInputs());
    EXPECT_FALSE(recording->has_bias());
}

TEST_F(FileAttributes, Scale) {
    for (const double scale : {0.0, -0.5, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        expect_spoiled([&](hid_t file) { set_number(file, "/problem", "sm_scale", scale); }, "/problem",
                       "sm_scale is");
    }
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "sm_scale", "0.5"); }, "/problem",
                   "attribute sm_scale is not a");
    expect_spoiled([](hid_t file) { set_number(file, "/problem", "sm_scale", -1e308); }, "/problem",
                   "sm_scale is -1e+308, not a finite positive number");
    expect_spoiled([](hid_t file) { set_number(file, "/problem", "logits_soft_cap", -1); }, "/problem",
                   "logits_soft_cap");
}

TEST_F(FileAttributes, UnknownNames) {
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "mask", "alien"); }, "/problem",
                   "attribute mask is \"alien\", not one of none, causal");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "mask", "a\x1b[2J\nb"); }, "/problem",
                   "\"a?[2J?b\"");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "mask", std::string(100000, 'm')); },
                   "/problem", "mmm...\"");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "causal_alignment", "left"); }, "/problem",
                   "not one of top_left, bottom_right");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "kv_order", "sideways"); }, "/problem",
                   "not one of forward, reverse");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "window_bounds", "open"); }, "/problem",
                   "not one of inclusive, exclusive");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "alibi", "yes"); }, "/problem",
                   "not one of none, linear, distance");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "sink", "middle"); }, "/problem",
                   "not one of none, first, last");
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "dtype_v", "f64"); }, "/problem",
                   "not one of f32, f16, bf16, e4m3, e5m2");
    expect_spoiled([](hid_t file) { set_text(file, "/tiles/s", "tanh", "tanhl"); }, "/tiles/s",
                   "not one of tanhf, tanh_approx");
    expect_spoiled(
        [](hid_t file) { set_text(file, "/tiles/s", "accumulation", "exact"); }, "/tiles/s",
        "not one of fma_f32, fma_f16, fma_bf16, tensor_core_f32, tensor_core_f16, tensor_core_tf32, "
        "tensor_core_fp8");
    expect_spoiled([](hid_t file) { set_text(file, "/outputs/o", "empty_row", "0"); }, "/outputs/o",
                   "not one of zero, -inf, inf, nan");
    expect_spoiled([](hid_t file) { set_text(file, "/tiles/s", "log_base", "10"); }, "/tiles/s",
                   "not one of e, 2");
    expect_spoiled([](hid_t file) { set_integer(file, "/tiles/s", "scaled", 2); }, "/tiles/s",
                   "attribute scaled is 2, not 0 or 1");
    expect_spoiled([](hid_t file) { set_text(file, "/tiles/s", "scaled", "yes"); }, "/tiles/s",
                   "attribute scaled is not a flag");
    expect_spoiled([](hid_t file) { set_text(file, "/inputs/k", "dtype", "bf16"); }, "/inputs/k",
                   "attribute dtype is bf16 where f16 is declared");
}

TEST_F(FileAttributes, AttributesOfOddTypes) {
    const double number = 1;
    expect_spoiled([&](hid_t file) { set_attribute(file, "/problem", "batch", H5T_IEEE_F64LE, &number); },
                   "/problem", "attribute batch is not an integer");
    const auto with_size = [](hsize_t elements) {
        return [elements](hid_t file) {
            delete_attribute(file, "/problem", "batch");
            const Handle owner(H5Oopen(file, "/problem", H5P_DEFAULT));
            const Handle space(elements == 0 ? H5Screate(H5S_NULL) : H5Screate_simple(1, &elements, nullptr));
            const Handle attribute(
                H5Acreate2(owner, "batch", H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT));
        };
    };
    expect_spoiled(with_size(0), "/problem", "attribute batch has not exactly one element");
    expect_spoiled(with_size(5000), "/problem", "attribute batch has not exactly one element");
    expect_spoiled(
        [](hid_t file) {
            const Handle type(H5Tarray_create2(H5T_STD_I64LE, 1, std::vector<hsize_t>{3}.data()));
            const std::int64_t values[3] = {1, 1, 1};
            set_attribute(file, "/problem", "batch", type, values);
        },
        "/problem", "attribute batch is not an integer");
}

TEST_F(FileAttributes, LongText) {
    expect_spoiled([](hid_t file) { set_text(file, "/", "kernel", std::string(2 << 20, 'k')); }, "",
                   "attribute kernel is longer than 1 MiB");
}

void create_capture_table(hid_t file, const char* path, const std::vector<std::int64_t>& values,
                          hsize_t cols) {
    const Handle group(H5Gcreate2(file, "/capture/s", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    create_dataset(file, path, H5T_STD_I64LE, {values.size() / cols, cols}, H5P_DEFAULT, values.data());
}

TEST_F(FileAttributes, CaptureLists) {
    const auto conflicts = [](const std::vector<std::int64_t>& row) {
        return [row](hid_t file) { create_capture_table(file, "/capture/s/conflicts", row, 5); };
    };
    write_spoiled_dump(path, conflicts({0, 1, 1, 2, 16}));
    EXPECT_EQ(refusal(path), "");
    const std::string table = "/capture/s/conflicts";
    expect_spoiled(conflicts({1, 1, 1, 2, 16}), table, "lists batch 1 head 1 q_block 1 kv_tile 2");
    expect_spoiled(conflicts({0, 2, 1, 2, 16}), table, "which the problem does not have");
    expect_spoiled(conflicts({0, 1, 2, 2, 16}), table, "which the problem does not have");
    expect_spoiled(conflicts({0, 1, 1, 3, 16}), table, "which the problem does not have");
    expect_spoiled(conflicts({0, 1, 1, -1, 16}), table, "which the problem does not have");
    expect_spoiled(conflicts({0, 1, 1, 2, 0}), table, "0 conflicting elements");
    expect_spoiled(conflicts({0, 1, 1, 2, std::numeric_limits<std::int64_t>::max()}), table,
                   "conflicting elements");
    expect_spoiled(
        [](hid_t file) {
            create_capture_table(file, "/capture/s/conflicts", {0, 1, 1, 2}, 4);
        },
        table, "is not a contiguous int64 table with 5 columns");
    expect_spoiled(
        [](hid_t file) {
            create_capture_table(file, "/capture/s/dropped", {0, 9, 1, 2}, 4);
        },
        "/capture/s/dropped", "which the problem does not have");
    expect_spoiled(
        [](hid_t file) {
            const Handle group(H5Gcreate2(file, "/capture/s", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
            create_dataset(file, "/capture/s/dropped", H5T_STD_I64LE, {hsize_t(1) << 40, 4}, H5P_DEFAULT,
                           nullptr);
        },
        "/capture/s/dropped", "declares more rows than the file holds");
    expect_spoiled(
        [](hid_t file) {
            const Handle group(H5Gcreate2(file, "/capture/s", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
            create_dataset(file, "/capture/s/dropped", H5T_STD_I64LE, {100, 4}, H5P_DEFAULT, nullptr);
        },
        "/capture/s/dropped", "declares rows but holds none");
}

TEST_F(FileAttributes, CaptureCounts) {
    const auto count = [](const char* name, std::int64_t value) {
        return [name, value](hid_t file) {
            const Handle group(H5Gcreate2(file, "/capture/s", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
            set_integer(file, "/capture/s", name, value);
        };
    };
    expect_spoiled(count("elements_dropped", -1), "/capture/s", "elements_dropped is negative");
    expect_spoiled(count("elements_out_of_range", -1), "/capture/s", "elements_out_of_range is negative");
    expect_spoiled(count("tiles_dropped", 3), "/capture/s", "tiles_dropped is 3, the file holds 0");
    expect_spoiled(count("elements_conflicting", 3), "/capture/s", "elements_conflicting is 3");
    expect_spoiled(count("tiles_written", 11), "/capture/s", "tiles_written is 11, the file holds 12");
}

TEST_F(FileAttributes, Selections) {
    for (const char* selection :
         {"head", "head=", "head=x", "head=3-1", "colour=1", "stage=z", "head=1\nx"}) {
        write_spoiled_dump(path, [&](hid_t file) { set_text(file, "/capture", "selection", selection); });
        const std::string message = refusal(path);
        EXPECT_EQ(message.rfind(path + ":/capture", 0), 0u) << message;
        EXPECT_NE(message.find("selection"), std::string::npos) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
    expect_spoiled([](hid_t file) { set_text(file, "/capture", "selection", std::string(100000, 'x')); },
                   "/capture", "selection");
}

}  // namespace
}  // namespace tilescope::test
