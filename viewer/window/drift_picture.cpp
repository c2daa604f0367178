#include "viewer/window/drift_picture.h"
#include "oracle/heatmap/drift_rows.h"

#include <chrono>
#include <cmath>
#include <span>
#include <vector>

namespace tilescope::viewer {

namespace {

Kind kind_of(float drift) {
    if (std::isnan(drift)) return Kind::not_captured;
    return std::isinf(drift) ? Kind::plus_infinity : Kind::finite;
}

std::shared_ptr<Pyramid> pyramid_of(const MatrixF& drift) {
    if (drift.size() == 0) return nullptr;
    std::vector<float> values(std::size_t(drift.size()));
    std::vector<Kind> kinds(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const float value = drift.data()[i];
        kinds[i] = kind_of(value);
        values[i] = kinds[i] == Kind::finite ? value : 0;
    }
    auto pyramid = std::make_shared<Pyramid>(drift.rows(), drift.cols());
    pyramid->set_tile(0, 0, drift.rows(), drift.cols(), values, kinds);
    pyramid->complete();
    return pyramid;
}

}  // namespace

const MatrixF& drift_of(const DriftRows& drift, int quantity) {
    return quantity == 0 ? drift.m : quantity == 1 ? drift.l : drift.acc;
}

std::shared_ptr<const Pyramid> DriftPicture::pyramid(const std::shared_ptr<const DriftRows>& drift,
                                                     int quantity) {
    if (pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
        pyramids_ = pending_.get();
        shown_ = wanted_;
    }
    if (drift == nullptr) return nullptr;
    if (shown_ != drift && !pending_.valid()) {
        wanted_ = drift;
        pending_ = std::async(std::launch::async, [drift] {
            Pyramids pyramids;
            for (int i = 0; i < quantities; ++i) pyramids[std::size_t(i)] = pyramid_of(drift_of(*drift, i));
            return pyramids;
        });
    }
    return shown_ == drift ? pyramids_[std::size_t(quantity)] : nullptr;
}

}  // namespace tilescope::viewer
