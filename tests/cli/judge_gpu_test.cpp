// Runs tile-run on the GPU and tile-diff on what it recorded: every configuration healthy, every planted
// fault blamed on the stage it was planted in. Both programs are expected beside this one.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dump/schema.h"
#include "kernels/attention/registry.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {
namespace {

struct Result {
    int exit_code = -1;
    std::string output;  ///< stdout and stderr
};

Result run(const std::string& program, const std::string& arguments) {
    const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    const std::string command = (here / program).string() + " " + arguments + " 2>&1";
    Result result;
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return result;
    std::array<char, 4096> buffer;
    while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
        result.output.append(buffer.data(), size);
    }
    const int status = ::pclose(pipe);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

bool has_gpu(const std::filesystem::path& directory) {
    const std::string file = (directory / "probe.h5").string();
    return run("tile-run", "record --kernel scalar --engine cuda --shape 1,1,16,16,64 -o " + file)
               .exit_code == 0;
}

/// What tile-run says where cuBLAS cannot be loaded; empty where it can.
std::string why_no_cublas(const std::filesystem::path& directory) {
    const std::string file = (directory / "probe.h5").string();
    const Result probe =
        run("tile-run", "record --kernel cublas --engine cuda --shape 1,1,16,16,64 -o " + file);
    return probe.output.find("tile-run: cuBLAS: it cannot be loaded") == 0 ? probe.output : "";
}

struct Case {
    std::string kernel;
    std::string options;
    std::string fault;  ///< empty: healthy
    std::string stage;  ///< where the fault is planted
    bool wgmma = false;

    friend void PrintTo(const Case& c, std::ostream* out) {
        *out << "tile-run record --kernel " << c.kernel << " " << c.options;
        if (!c.fault.empty()) *out << " --fault " << c.fault;
    }
};

std::vector<Case> healthy_cases() {
    const std::vector<std::string> scalar_configs = {"16x64x1", "16x64x2", "32x32x1", "32x32x2",
                                                     "32x64x1", "32x64x2", "48x64x1", "48x64x2"};
    const std::map<std::string, std::vector<std::string>> fast_configs = {
        {"64", {"32x64x2", "64x64x2", "128x128x2"}}, {"128", {"32x32x2", "64x64x2", "128x64x2"}}};
    // Tails, sequences shorter than a tile, more queries than keys and fewer, groups of 5 and 7, each input.
    const std::vector<std::string> problems = {
        "--shape 2,3,130,200,{D}",
        "--shape 1,2,128,256,{D} --causal",
        "--shape 1,10,65,127,{D} --heads-kv 2 --causal --input ramped",
        "--shape 1,7,200,70,{D} --heads-kv 1 --causal --input ties",
        "--shape 1,2,33,129,{D} --causal --causal-alignment top_left --input distinct_v",
        "--shape 1,2,17,7,{D} --input negative",
        "--shape 1,1,1,193,{D} --input large",
        "--shape 2,4,70,90,{D} --heads-kv 2 --input zero_head",
    };
    std::vector<Case> cases;
    for (const std::string head_dim : {"64", "128"}) {
        for (const std::string& problem : problems) {
            std::string options = problem;
            options.replace(options.find("{D}"), 3, head_dim);
            for (const std::string& config : scalar_configs) {
                cases.push_back({"scalar", "--config " + config + " " + options, "", ""});
            }
            cases.push_back({"wmma", options, "", ""});
            for (const std::string config : {"32x64x2", "16x64x1"}) {
                cases.push_back({"cublas", "--config " + config + " " + options, "", ""});
            }
            // Its guards bite on scores that are far apart.
            if (options.find("--input large") == std::string::npos)
                cases.push_back({"stable", options, "", ""});
            for (const std::string& config : fast_configs.at(head_dim)) {
                for (const std::string dtype : {"f16", "bf16"}) {
                    cases.push_back(
                        {"fast", "--config " + config + " --dtype " + dtype + " " + options, "", ""});
                }
            }
            for (const std::string config : {"64x64x1", "64x64x1xe4m3"}) {
                cases.push_back({"fp8", "--config " + config + " " + options, "", ""});
            }
        }
    }
    return cases;
}

std::vector<Case> faulty_cases() {
    std::vector<Case> cases;
    for (const FaultInfo& fault : all_faults) {
        for (const KernelInfo& kernel : all_kernels()) {
            const KernelConfig* config = faulty_config(kernel, fault);
            if (config == nullptr) continue;
            cases.push_back({std::string(kernel.name), std::string(fault.shown_by), std::string(fault.name),
                             std::string(stage_info(fault.stage).name), config->wgmma});
        }
    }
    return cases;
}

class JudgeOnGpu : public testing::TestWithParam<Case> {
 protected:
    static void SetUpTestSuite() {
        std::string name = (std::filesystem::temp_directory_path() / "tilescope-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        directory_ = name;
        gpu_ = has_gpu(directory_);
        if (gpu_) no_cublas_ = why_no_cublas(directory_);
    }
    static void TearDownTestSuite() { std::filesystem::remove_all(directory_); }

    void SetUp() override {
        if (gpu_ && GetParam().kernel == "cublas" && !no_cublas_.empty()) GTEST_SKIP() << no_cublas_;
        if (gpu_ && GetParam().wgmma && !gpu_has_wgmma()) GTEST_SKIP() << "the GPU has no wgmma";
        if (gpu_) return;
        const char* required = ::getenv("REQUIRE_GPU");
        if (required != nullptr && std::string(required) == "1")
            FAIL() << "REQUIRE_GPU=1, and there is no GPU";
        GTEST_SKIP() << "no GPU";
    }

    static inline bool gpu_ = false;
    static inline std::string no_cublas_;
    static inline std::filesystem::path directory_;
};

TEST_P(JudgeOnGpu, BlamesThePlantedStage) {
    const Case& c = GetParam();
    const std::string file = (directory_ / "run.h5").string();
    const std::string report = (directory_ / "report.json").string();
    std::string arguments =
        "record --engine cuda --kernel " + c.kernel + " " + c.options + " --seed 7 -o " + file;
    if (!c.fault.empty()) arguments += " --fault " + c.fault;
    const Result recorded = run("tile-run", arguments);
    ASSERT_EQ(recorded.exit_code, 0) << recorded.output;

    const Result judged = run("tile-diff", file + " --json " + report);
    ASSERT_EQ(judged.exit_code, c.fault.empty() ? 0 : 1) << judged.output;
    const nlohmann::json json = nlohmann::json::parse(std::ifstream(report));
    if (c.fault.empty()) {
        EXPECT_EQ(json["verdict"], "match");
        for (const auto& stage : json["stages"]) {
            // cuBLAS shows no tiles of Q and K.
            const bool held = c.kernel != "cublas" || (stage["name"] != "q" && stage["name"] != "k");
            EXPECT_EQ(stage["compared"] > 0, held) << stage["name"];
        }
    } else {
        EXPECT_EQ(json["verdict"], "diverged");
        EXPECT_EQ(json["first_divergence"]["stage"], c.stage) << judged.output;
    }
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
    const Case& c = info.param;
    return c.kernel + "_" + (c.fault.empty() ? "healthy" : c.fault) + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Healthy, JudgeOnGpu, testing::ValuesIn(healthy_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Faulty, JudgeOnGpu, testing::ValuesIn(faulty_cases()), name_of);

}  // namespace
}  // namespace tilescope
