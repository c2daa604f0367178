#include "oracle/causes/descales.h"

#include <algorithm>

namespace tilescope {

namespace {

/// The operand's own place among what a HeadCall and the recording hold of descales.
struct DescaledOperand {
    Stage stage;
    const char* name;
    Eigen::VectorXd HeadCall::*rows;
    Descale SideInputs::*descale;
    Operand SearchedTile::*operand;
};

constexpr DescaledOperand operands[] = {
    {Stage::q, "q", &HeadCall::q_descale, &SideInputs::descale_q, &SearchedTile::q},
    {Stage::k, "k", &HeadCall::k_descale, &SideInputs::descale_k, &SearchedTile::k},
    {Stage::v, "v", &HeadCall::v_descale, &SideInputs::descale_v, &SearchedTile::v}};

/// The stage in which the kernel multiplies with the operand's descale.
Stage applied_in(const Units& units, Stage operand) {
    if (operand == Stage::v && units.p_descale_v != DescaleInP::none) return Stage::acc;
    if (operand == Stage::v)
        return units.v_dequantised ? Stage::v : units.acc_dequantised ? Stage::acc : Stage::o;
    const bool dequantised = operand == Stage::q ? units.q_dequantised : units.k_dequantised;
    return dequantised ? operand : Stage::s;
}

const DescaledOperand& descaled(Stage stage) {
    return *std::ranges::find(operands, stage, &DescaledOperand::stage);
}

}  // namespace

bool descale_is_applied(const Evidence& evidence, Stage operand) {
    if (operand == Stage::dout) return false;
    const Descale& descale = evidence.world->recording().side_inputs().*descaled(operand).descale;
    return !descale.empty() && applied_in(evidence.units(), operand) == operand;
}

void use_descale_of(const HeadCall& other, Stage operand, HeadCall& call) {
    const Eigen::VectorXd& from = other.*descaled(operand).rows;
    Eigen::VectorXd& to = call.*descaled(operand).rows;
    for (Eigen::Index row = 0; row < to.size() && from.size() > 0; ++row)
        to(row) = from(std::min(row, from.size() - 1));
}

}  // namespace tilescope
