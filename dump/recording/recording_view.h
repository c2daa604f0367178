#pragma once

#include <cstddef>
#include <string>

#include "dump/recording.h"
#include "dump/schema/span.h"

namespace tilescope {

/// A recording as another one has it, but for what a class of its own changes. The other one must outlive it.
class RecordingView : public Recording {
 public:
    explicit RecordingView(const Recording& of) : of_(of) {}

    const std::string& name() const override { return of_.name(); }
    const Problem& problem() const override { return of_.problem(); }
    const Units& units() const override { return of_.units(); }
    const Provenance& provenance() const override { return of_.provenance(); }
    const CaptureSummary& capture() const override { return of_.capture(); }
    const ThreadLayouts& threads() const override { return of_.threads(); }
    bool has_stage(Stage stage) const override { return of_.has_stage(stage); }
    bool has_tile(Stage stage, const TileId& tile) const override { return of_.has_tile(stage, tile); }
    bool may_hold(const TileId& q_block) const override { return of_.may_hold(q_block); }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override {
        return of_.read_tile(stage, tile, out);
    }
    bool has_writers(Stage stage) const override { return of_.has_writers(stage); }
    bool read_writers(Stage stage, const TileId& tile, Span<ElementWriter> out) const override {
        return of_.read_writers(stage, tile, out);
    }
    bool has_input(Input input) const override { return of_.has_input(input); }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override {
        of_.read_input(input, batch, head, row, count, out);
    }
    const SideInputs& side_inputs() const override { return of_.side_inputs(); }
    bool has_bias() const override { return of_.has_bias(); }
    void read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                   Span<float> out) const override {
        of_.read_bias(batch, head, row, first_key, out);
    }
    void require_unchanged() const override { of_.require_unchanged(); }
    Span<const ReferenceInfo> references() const override { return of_.references(); }
    void read_reference(std::size_t index, Stage stage, std::int64_t batch, std::int64_t head,
                        std::int64_t row, std::int64_t count, Span<float> out) const override {
        of_.read_reference(index, stage, batch, head, row, count, out);
    }

 protected:
    const Recording& of() const { return of_; }

 private:
    const Recording& of_;
};

/// A recording with another problem and other units: as if they had been declared.
class DeclaredAs : public RecordingView {
 public:
    /// Errors: Error where they are not valid, or ask for inputs that the recording does not have.
    DeclaredAs(const Recording& of, const Problem& problem, const Units& units)
        : RecordingView(of), problem_(problem), units_(units) {
        validate(problem, of.name());
        validate(units, of.name());
        validate(of.side_inputs(), problem, of.name());
    }

    const Problem& problem() const override { return problem_; }
    const Units& units() const override { return units_; }

 private:
    Problem problem_;
    Units units_;
};

}  // namespace tilescope
