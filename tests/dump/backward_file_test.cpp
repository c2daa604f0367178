// Backward dumps: what is written is read again, and what contradicts itself is refused.

#include "dump/recording/array_shape.h"
#include "dump/writer.h"
#include "tests/dump/spoiled_file.h"

namespace tilescope::test {
namespace {

// 2 batches x 4 heads: 3 query blocks of q, dout, delta and dq; 3 x 2 tiles of k, v, s, p, dp and ds. 2 KV
// tiles of dk and dv for each of their heads.
constexpr std::int64_t tiles_of_query_heads = 8 * (4 * 3 + 6 * 6);
constexpr std::int64_t tiles_of_a_dkv_head = 2 * 2;

class BackwardFile : public SpoiledFile {
 protected:
    std::unique_ptr<Recording> written_and_opened(const Recording& recording) const {
        write_recording(path, recording);
        return open_recording(path);
    }
    /// Writes a sample with everything and lets `change` spoil it.
    void write_changed(const std::function<void(hid_t)>& change,
                       const Problem& problem = backward_problem()) {
        MemoryRecording recording(problem);
        fill(recording);
        write_recording(path, recording);
        const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        change(file);
    }
    void expect_bad(const std::function<void(hid_t)>& change, const std::string& object,
                    const std::string& words) {
        SCOPED_TRACE(object);
        write_changed(change);
        expect_refused(path, object, words);
    }
    std::int64_t stored_integer(const char* object, const char* name) const {
        const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
        const Handle attribute(H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT));
        std::int64_t value = -1;
        require(H5Aread(attribute, H5T_NATIVE_INT64, &value));
        return value;
    }
    bool is_stored(const char* object, const char* attribute = nullptr) const {
        const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
        if (H5Lexists(file, object, H5P_DEFAULT) <= 0) return false;
        return attribute == nullptr || H5Aexists_by_name(file, object, attribute, H5P_DEFAULT) > 0;
    }
};

void replace_with(hid_t file, const char* path, hid_t type, const std::vector<hsize_t>& dims) {
    const std::vector<float> zeros(1 << 16, 0.0f);
    unlink_object(file, path);
    create_dataset(file, path, type, dims, H5P_DEFAULT, zeros.data());
}

TEST_F(BackwardFile, KeepsEveryTileAndInput) {
    MemoryRecording summed(backward_problem());
    fill(summed);
    const auto opened = written_and_opened(summed);
    EXPECT_EQ(expect_same_contents(*opened, summed), tiles_of_query_heads + 4 * tiles_of_a_dkv_head);
    EXPECT_TRUE(opened->has_inputs());
    EXPECT_EQ(opened->problem(), summed.problem());
    const std::string copy = folder.file("copy.h5");
    write_recording(copy, *opened);
    EXPECT_EQ(expect_same_contents(*open_recording(copy), summed),
              tiles_of_query_heads + 4 * tiles_of_a_dkv_head);

    Problem problem = backward_problem();
    problem.dkv_per_head = true;
    MemoryRecording per_head(problem);
    fill(per_head);
    EXPECT_EQ(expect_same_contents(*written_and_opened(per_head), per_head),
              tiles_of_query_heads + 8 * tiles_of_a_dkv_head);
}

TEST_F(BackwardFile, KeepsTilesThatAreLargerThanTheTensor) {
    Problem problem = backward_problem();
    problem.seqlen_q = 3;
    problem.seqlen_kv = 5;
    MemoryRecording recording(problem);
    fill(recording);
    EXPECT_EQ(expect_same_contents(*written_and_opened(recording), recording), 8 * 10 + 4 * 2);
}

TEST_F(BackwardFile, KeepsEntriesOfOtherLengths) {
    MemoryRecording recording(backward_problem());
    fill(recording);
    SideInputs inputs;
    inputs.seqlens_q = {37, 20};
    inputs.seqlens_kv = {41, 0};
    recording.set_side_inputs(inputs);
    const auto opened = written_and_opened(recording);
    EXPECT_EQ(expect_same_contents(*opened, recording), tiles_of_query_heads + 4 * tiles_of_a_dkv_head);
    for (const Input input : {Input::dout, Input::o, Input::lse}) {
        const auto cols = static_cast<std::size_t>(input_shape(recording.problem(), input).cols);
        std::vector<float> rows(17 * cols, 5.0f);
        opened->read_input(input, 1, 3, 20, 17, rows);
        EXPECT_EQ(rows, std::vector<float>(17 * cols, 0.0f)) << "beyond the entry's length";
    }
    std::vector<float> one(12);
    EXPECT_THROW(opened->read_input(Input::lse, 0, 4, 0, 1, one), Error) << "there are 4 heads";
    EXPECT_THROW(opened->read_input(Input::dout, 0, 0, 37, 1, one), Error);
}

// Keys beyond an entry's length, and query rows, are not counted as unwritten.
TEST_F(BackwardFile, CountsOnlyKeysOfAnEntryAsUnwritten) {
    MemoryRecording recording(backward_problem());
    SideInputs inputs;
    inputs.seqlens_q = {1, 1};
    inputs.seqlens_kv = {40, 20};
    recording.set_side_inputs(inputs);
    const std::vector<float> nothing(32 * 8, std::bit_cast<float>(unwritten_bits));
    recording.set_tile(Stage::dk, {0, 1, 0, 1}, nothing);  // keys 32 to 39
    recording.set_tile(Stage::dk, {1, 1, 0, 1}, nothing);  // no key
    write_recording(path, recording);
    EXPECT_EQ(stored_integer("/capture/dk", "elements_unwritten"), 8 * 8);
    EXPECT_EQ(stored_integer("/capture/dk", "tiles_written"), 2);
}

TEST_F(BackwardFile, KeepsTheProblem) {
    Problem problem = backward_problem();
    problem.dkv_per_head = true;
    problem.dtype_dout = Dtype::bf16;
    problem.dtype_ds = Dtype::e5m2;
    problem.dtype_dq = Dtype::f32;
    problem.dtype_dk = Dtype::e4m3;
    problem.dtype_dv = Dtype::bf16;
    EXPECT_EQ(written_and_opened(MemoryRecording(problem))->problem(), problem);
    problem = backward_problem();
    problem.dtype_dk = Dtype::bf16;
    EXPECT_EQ(written_and_opened(MemoryRecording(problem))->problem(), problem);
}

// Each unit differs from its default once, alone, so that no attribute can stand in for another.
TEST_F(BackwardFile, KeepsEachUnit) {
    const std::pair<const char*, void (*)(Units&)> changes[] = {
        {"s_scaled", [](Units& units) { units.s_scaled = false; }},
        {"p_cast", [](Units& units) { units.p_cast = Dtype::bf16; }},
        {"dp_accumulation", [](Units& units) { units.dp_accumulation = Accumulation::tensor_core_f32; }},
        {"ds_from_cast_p", [](Units& units) { units.ds_from_cast_p = true; }},
        {"ds_capped", [](Units& units) { units.ds_capped = false; }},
        {"ds_cast", [](Units& units) { units.ds_cast = Dtype::f16; }},
        {"ds_scale", [](Units& units) { units.ds_scale = 0.125; }},
        {"dq_accumulation", [](Units& units) { units.dq_accumulation = Accumulation::tensor_core_f16; }},
        {"dk_accumulation", [](Units& units) { units.dk_accumulation = Accumulation::tensor_core_tf32; }},
        {"dv_accumulation", [](Units& units) { units.dv_accumulation = Accumulation::fma_f16; }},
        {"lse_log_base", [](Units& units) { units.lse_log_base = LogBase::two; }},
        {"lse_empty_row", [](Units& units) { units.lse_empty_row = EmptyRow::plus_infinity; }},
        {"lse_includes_sink", [](Units& units) { units.lse_includes_sink = false; }},
        {"kv_order", [](Units& units) { units.kv_order = KvOrder::reverse; }},
    };
    for (const auto& [name, change] : changes) {
        Units units;
        change(units);
        MemoryRecording recording(backward_problem(), units);
        fill(recording);
        EXPECT_EQ(written_and_opened(recording)->units(), units) << name;
    }
}

TEST_F(BackwardFile, HasNoUnitsOfTheForwardPass) {
    Units units;
    units.o_empty_row = EmptyRow::nan;
    units.acc_scale = 448;
    units.m_stale_threshold = 8;
    MemoryRecording backward(backward_problem(), units);
    fill(backward);
    EXPECT_EQ(written_and_opened(backward)->units(), Units());
    EXPECT_FALSE(is_stored("/inputs/o", "empty_row"));
    EXPECT_TRUE(is_stored("/inputs/lse", "log_base"));
    EXPECT_FALSE(is_stored("/tiles/acc") || is_stored("/outputs/lse") || is_stored("/capture/acc"));

    Units gradients;
    gradients.ds_scale = 0.125;
    gradients.dk_accumulation = Accumulation::tensor_core_f32;
    EXPECT_EQ(written_and_opened(MemoryRecording(sample_problem(), gradients))->units(), Units());
    EXPECT_FALSE(is_stored("/tiles/ds") || is_stored("/outputs/dk") || is_stored("/capture/dk"));
}

TEST_F(BackwardFile, OMayBeMissing) {
    MemoryRecording recording(backward_problem());
    fill(recording);
    recording.remove_input(Input::o);
    const auto opened = written_and_opened(recording);
    EXPECT_TRUE(opened->has_inputs());
    EXPECT_FALSE(opened->has_input(Input::o));
    EXPECT_GT(expect_same_contents(*opened, recording), 0);
    std::vector<float> row(12);
    EXPECT_THROW(opened->read_input(Input::o, 0, 0, 0, 1, row), Error);
}

TEST_F(BackwardFile, HasNoTileOutsideTheProblem) {
    MemoryRecording recording(backward_problem());
    fill(recording);
    const auto opened = written_and_opened(recording);
    for (const TileId& tile :
         {TileId{2, 0, 0, 0}, TileId{0, 2, 0, 0}, TileId{0, -1, 0, 0}, TileId{0, 0, 0, 2}}) {
        EXPECT_FALSE(opened->has_tile(Stage::dk, tile));
    }
    EXPECT_TRUE(opened->has_tile(Stage::dk, {1, 1, 99, 1})) << "dk has no query block";
    EXPECT_FALSE(opened->has_tile(Stage::acc, {}));
}

TEST_F(BackwardFile, KeepsWhatTheCaptureLost) {
    MemoryRecording recording(backward_problem());
    CaptureSummary capture;
    // Heads 1 and 3 read KV heads 0 and 1: 2 batches, 2 heads and 1 KV tile of dk.
    capture.selection = parse_selection("head=1,3:q_block=0-1:kv_tile=1:stage=dk,dq", "test");
    StageCapture& dk = capture.stages[static_cast<std::size_t>(Stage::dk)];
    dk.conflicts = {{{1, 1, 0, 1}, 7}};
    dk.dropped = {{0, 1, 0, 1}};
    dk.elements_dropped = 144;
    recording.set_capture(capture);
    const TileId kept{1, 1, 0, 1};
    const TileId not_selected{0, 1, 0, 0};
    for (const TileId& tile : {kept, not_selected}) {
        recording.set_tile(Stage::dk, tile, sample_tile(recording.problem(), Stage::dk, tile));
    }
    const auto opened = written_and_opened(recording);
    const StageCapture& got = opened->capture().stages[static_cast<std::size_t>(Stage::dk)];
    EXPECT_EQ(opened->capture().selection, capture.selection);
    ASSERT_EQ(got.conflicts.size(), 1u);
    EXPECT_EQ(got.conflicts[0].tile, kept);
    EXPECT_EQ(got.dropped, dk.dropped);
    EXPECT_TRUE(opened->has_tile(Stage::dk, kept));
    EXPECT_FALSE(opened->has_tile(Stage::dk, not_selected));
    EXPECT_EQ(stored_integer("/capture/dk", "tiles_selected"), 2 * 2 * 1);
    EXPECT_EQ(stored_integer("/capture/dq", "tiles_selected"), 2 * 2 * 2);
    EXPECT_EQ(stored_integer("/capture/dv", "tiles_selected"), 0);
}

TEST_F(BackwardFile, InputsKeepTheirDtypes) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2}) {
        Problem problem = backward_problem();
        problem.dtype_dout = dtype;
        problem.dtype_o = dtype == Dtype::f16 ? Dtype::bf16 : Dtype::f16;
        MemoryRecording recording(problem);
        fill(recording);
        expect_same_inputs(*written_and_opened(recording), recording);
    }
    Problem problem = backward_problem();
    MemoryRecording recording(problem);
    fill(recording);
    std::vector<float> dout = sample_input(problem, Input::dout);
    dout[5] = 0.1f;
    recording.set_input(Input::dout, dout);
    EXPECT_THROW(write_recording(folder.file("other.h5"), recording), Error) << "0.1 is no f16";
}

TEST_F(BackwardFile, LseKeepsEveryBit) {
    MemoryRecording recording(backward_problem());
    fill(recording);
    std::vector<float> lse = sample_input(recording.problem(), Input::lse);
    lse[0] = -std::numeric_limits<float>::infinity();
    lse[1] = 0.1f;
    lse[2] = std::numeric_limits<float>::infinity();
    recording.set_input(Input::lse, lse);
    expect_same_inputs(*written_and_opened(recording), recording);
}

TEST_F(BackwardFile, APackedTensorHoldsRowsOfQ) {
    // Entry 0 has 5 of the rows, entry 1 the 17 behind them.
    write_changed([](hid_t file) {
        const std::int32_t sums[] = {0, 5, 22};
        create_dataset(file, "/inputs/cu_seqlens_q", H5T_STD_I32LE, {3}, H5P_DEFAULT, sums);
        const std::pair<const char*, hsize_t> tensors[] = {
            {"/inputs/q", 8}, {"/inputs/dout", 12}, {"/inputs/o", 12}, {"/inputs/lse", 0}};
        for (const auto& [name, cols] : tensors) {
            std::vector<hsize_t> dims = {1, 4, 22};
            if (cols > 0) dims.push_back(cols);
            std::vector<float> numbers(4 * 22 * std::max<hsize_t>(cols, 1));
            for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
            unlink_object(file, name);
            create_dataset(file, name, H5T_IEEE_F32LE, dims, H5P_DEFAULT, numbers.data());
        }
    });
    ASSERT_EQ(refusal(path), "");
    const auto opened = open_recording(path);
    EXPECT_EQ(opened->side_inputs().seqlens_q, (std::vector<std::int64_t>{5, 17}));
    for (const Input input : {Input::q, Input::dout, Input::o, Input::lse}) {
        const std::int64_t cols = input_shape(opened->problem(), input).cols;
        std::vector<float> rows(static_cast<std::size_t>(2 * cols));
        opened->read_input(input, 1, 3, 15, 2, rows);
        for (std::int64_t i = 0; i < 2 * cols; ++i) {
            EXPECT_EQ(rows[static_cast<std::size_t>(i)], static_cast<float>((3 * 22 + 5 + 15) * cols + i));
        }
        EXPECT_THROW(opened->read_input(input, 0, 0, 5, 1, rows), Error);
        EXPECT_THROW(opened->read_input(input, 1, 0, 16, 2, rows), Error);
    }
    expect_bad(
        [](hid_t file) {
            const std::int32_t sums[] = {0, 5, 22};
            create_dataset(file, "/inputs/cu_seqlens_q", H5T_STD_I32LE, {3}, H5P_DEFAULT, sums);
            replace_with(file, "/inputs/q", H5T_IEEE_F32LE, {1, 4, 22, 8});
            replace_with(file, "/inputs/dout", H5T_IEEE_F32LE, {1, 4, 22, 12});
            replace_with(file, "/inputs/o", H5T_IEEE_F32LE, {1, 4, 22, 12});
        },
        "/inputs/lse", "has shape [2, 4, 37] where /problem asks for [1, 4, 22]");
}

TEST_F(BackwardFile, AForwardFileIgnoresInputsOfTheBackwardPass) {
    write_spoiled_dump(path, [](hid_t file) {
        const std::vector<float> zeros(64, 0.0f);
        for (const char* name : {"/inputs/dout", "/inputs/o", "/inputs/lse"}) {
            create_dataset(file, name, H5T_IEEE_F64LE, {3}, H5P_DEFAULT, zeros.data());
        }
    });
    ASSERT_EQ(refusal(path), "");
    const auto opened = open_recording(path);
    EXPECT_EQ(opened->problem().direction, Direction::forward);
    EXPECT_TRUE(opened->has_inputs());
    for (const Input input : {Input::dout, Input::o, Input::lse}) EXPECT_FALSE(opened->has_input(input));
}

TEST_F(BackwardFile, StagesOfTheOtherDirection) {
    for (const StageInfo& info : all_stages()) {
        const std::string dataset = dataset_of(info);
        if (!info.forward) {
            expect_spoiled(
                [&](hid_t file) {
                    create_dataset(file, dataset.c_str(), H5T_IEEE_F32LE, {3}, H5P_DEFAULT, nullptr);
                },
                dataset, "belongs to a stage that the forward pass does not have");
        }
        if (!info.backward) {
            expect_bad(
                [&](hid_t file) {
                    const Handle group(
                        H5Gcreate2(file, dataset.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
                },
                dataset, "belongs to a stage that the backward pass does not have");
        }
    }
    expect_spoiled([](hid_t file) { set_text(file, "/problem", "direction", "backward"); }, "/tiles/m",
                   "attribute direction of /problem says backward; leave it out, or write the direction");
    expect_bad([](hid_t file) { delete_attribute(file, "/problem", "direction"); }, "/tiles/dout",
               "attribute direction of /problem says forward, or nothing; leave it out");
}

TEST_F(BackwardFile, Directions) {
    expect_bad([](hid_t file) { set_text(file, "/problem", "direction", "sideways"); }, "/problem",
               "attribute direction is \"sideways\", not one of forward, backward");
    expect_bad([](hid_t file) { set_integer(file, "/problem", "direction", 1); }, "/problem",
               "attribute direction is not");
    expect_bad([](hid_t file) { set_text(file, "/problem", "dkv_per_head", "yes"); }, "/problem",
               "attribute dkv_per_head is not a flag");
    for (const char* dtype : {"dtype_dout", "dtype_ds", "dtype_dq", "dtype_dk", "dtype_dv"}) {
        expect_bad([&](hid_t file) { set_text(file, "/problem", dtype, "f64"); }, "/problem",
                   std::string("attribute ") + dtype + " is \"f64\", not one of");
    }
}

TEST_F(BackwardFile, SomeInputsAreMissing) {
    const std::vector<const char*> required = {"/inputs/q", "/inputs/k", "/inputs/v", "/inputs/dout",
                                               "/inputs/lse"};
    for (const char* input : required) {
        expect_bad([&](hid_t file) { unlink_object(file, input); }, "/inputs",
                   "holds some inputs, but not all of q, k, v, dout and lse;");
    }
    expect_bad(
        [&](hid_t file) {
            for (const char* input : required) unlink_object(file, input);
        },
        "/inputs", "holds some inputs, but not all of q, k, v, dout and lse;");
    write_changed([&](hid_t file) {
        for (const char* input : required) unlink_object(file, input);
        unlink_object(file, "/inputs/o");
    });
    EXPECT_EQ(refusal(path), "");
    EXPECT_FALSE(open_recording(path)->has_inputs());
}

TEST_F(BackwardFile, ShapesAndTypes) {
    const auto with = [](const char* name, hid_t type, const std::vector<hsize_t>& dims) {
        return [=](hid_t file) { replace_with(file, name, type, dims); };
    };
    const Handle half(half_type());
    expect_bad(with("/inputs/dout", H5T_IEEE_F32LE, {2, 4, 37, 8}), "/inputs/dout",
               "has shape [2, 4, 37, 8] where /problem asks for [2, 4, 37, 12]");
    expect_bad(with("/inputs/o", H5T_IEEE_F32LE, {2, 2, 37, 12}), "/inputs/o", "asks for [2, 4, 37, 12]");
    expect_bad(with("/inputs/lse", H5T_IEEE_F32LE, {2, 4, 37, 1}), "/inputs/lse", "asks for [2, 4, 37]");
    expect_bad(with("/inputs/lse", half, {2, 4, 37}), "/inputs/lse", "holds 2-byte floats");
    expect_bad(with("/inputs/dout", H5T_IEEE_F64LE, {2, 4, 37, 12}), "/inputs/dout", "holds 8-byte floats");
    expect_bad(with("/outputs/dk", H5T_IEEE_F32LE, {2, 4, 50, 8}), "/outputs/dk",
               "has shape [2, 4, 50, 8] where /problem asks for [2, 2, 50, 8]");
    expect_bad(with("/outputs/dv", H5T_IEEE_F32LE, {2, 2, 50, 8}), "/outputs/dv", "asks for [2, 2, 50, 12]");
    expect_bad(with("/outputs/dq", H5T_IEEE_F32LE, {2, 4, 37, 12}), "/outputs/dq", "asks for [2, 4, 37, 8]");
    expect_bad(with("/tiles/delta", H5T_IEEE_F32LE, {2, 4, 37, 1}), "/tiles/delta", "asks for [2, 4, 37]");
    expect_bad(with("/tiles/dp", half, {2, 4, 37, 50}), "/tiles/dp", "holds 2-byte floats");
    expect_bad([](hid_t file) { set_integer(file, "/problem", "dkv_per_head", 1); }, "/outputs/dk",
               "asks for [2, 4, 50, 8]");
    expect_bad(
        [](hid_t file) {
            unlink_object(file, "/outputs/dk");
            create_chunked(file, "/outputs/dk", H5T_IEEE_F32LE, {2, 2, 50, 8}, {1, 1, 16, 8}, nullptr);
        },
        "/outputs/dk", "has chunks of 1x1x16x8, not of one tile, 1x1x32x8");
}

TEST_F(BackwardFile, Attributes) {
    for (const char* name : {"/inputs/dout", "/inputs/o", "/outputs/dq", "/outputs/dk", "/outputs/dv"}) {
        expect_bad([&](hid_t file) { set_text(file, name, "dtype", "bf16"); }, name,
                   "attribute dtype is bf16 where f16 is declared");
    }
    expect_bad([](hid_t file) { set_text(file, "/inputs/lse", "dtype", "f16"); }, "/inputs/lse",
               "attribute dtype is f16 where f32 is declared");
    expect_bad([](hid_t file) { set_text(file, "/inputs/lse", "log_base", "10"); }, "/inputs/lse",
               "not one of e, 2");
    for (const char* name : {"/tiles/dp", "/outputs/dq", "/outputs/dk", "/outputs/dv"}) {
        expect_bad([&](hid_t file) { set_text(file, name, "accumulation", "exact"); }, name,
                   "attribute accumulation is \"exact\", not one of");
    }
    expect_bad([](hid_t file) { set_text(file, "/tiles/ds", "cast", "f64"); }, "/tiles/ds", "not one of f32");
    for (const char* name : {"from_cast_p", "capped"}) {
        expect_bad([&](hid_t file) { set_integer(file, "/tiles/ds", name, 2); }, "/tiles/ds",
                   std::string("attribute ") + name + " is 2, not 0 or 1");
    }
    for (const double scale : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
        expect_bad([&](hid_t file) { set_number(file, "/tiles/ds", "scale", scale); }, "/tiles/ds",
                   "scale of ds is ");
    }
}

TEST_F(BackwardFile, CaptureLists) {
    const auto conflicts = [](const std::vector<std::int64_t>& row) {
        return [row](hid_t file) {
            create_dataset(file, "/capture/dk/conflicts", H5T_STD_I64LE, {1, 5}, H5P_DEFAULT, row.data());
            set_integer(file, "/capture/dk", "elements_conflicting", row[4]);
        };
    };
    write_changed(conflicts({1, 1, 0, 1, 9}));
    EXPECT_EQ(refusal(path), "");
    for (const std::vector<std::int64_t>& row : std::vector<std::vector<std::int64_t>>{
             {2, 1, 0, 1, 9}, {1, 2, 0, 1, 9}, {1, 1, 1, 1, 9}, {1, 1, 0, 2, 9}}) {
        expect_bad(conflicts(row), "/capture/dk/conflicts", "which the problem does not have");
    }
}

TEST_F(BackwardFile, References) {
    expect_bad(
        [](hid_t file) {
            const Handle group(H5Gcreate2(file, "/references", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        },
        "/references", "o and lse are no outputs of the backward pass");
}

}  // namespace
}  // namespace tilescope::test
