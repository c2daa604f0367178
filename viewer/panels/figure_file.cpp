// Heatmaps written as PNG, with what it takes to read them elsewhere.

#include <exception>

#include "oracle/heatmap/png.h"
#include "viewer/panels/pane_frame.h"

namespace tilescope::viewer {

Figure figure_of_pane(const PaneFrame& pane, const HeatmapPane& heatmap) {
    Figure figure;
    figure.plane = pane.plane;
    figure.shape = pane.shape;
    figure.quantity = pane.quantity;
    figure.view = pane.view;
    figure.style = heatmap.shown().style;
    figure.width = int(pane.size.x);
    figure.height = int(pane.size.y);
    return figure;
}

bool write_figure(App& app, const std::string& path, const Figure& figure, const HeatmapPane& heatmap) {
    try {
        write_png(path, draw_figure(figure, *heatmap.shown().pyramid, heatmap.shown().details).image);
    } catch (const std::exception& error) {
        app.notice = one_line(error.what());
        return false;
    }
    app.notice += (app.notice.empty() ? "wrote " : ", ") + path;
    return true;
}

}  // namespace tilescope::viewer
