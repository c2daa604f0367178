#pragma once

// Tables of a page, to hold what a program knows against them.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tilescope::test {

using PageRow = std::vector<std::string>;

/// The cells of a line of a table, without the signs of code.
inline PageRow cells_of(const std::string& line) {
    PageRow cells;
    std::istringstream stream(line.substr(1));
    for (std::string cell; std::getline(stream, cell, '|');) {
        std::erase(cell, '`');
        const std::size_t first = cell.find_first_not_of(' ');
        const std::size_t last = cell.find_last_not_of(' ');
        cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    return cells;
}

/// The rows below a heading of a table, which is one line of the page.
inline std::vector<PageRow> rows_of_page(const char* path, const std::string& heading) {
    std::ifstream page(path);
    std::vector<PageRow> rows;
    bool inside = false;
    for (std::string line; std::getline(page, line);) {
        if (line == heading) {
            inside = true;
            std::getline(page, line);
        } else if (inside && line.empty()) {
            break;
        } else if (inside) {
            rows.push_back(cells_of(line));
        }
    }
    return rows;
}

}  // namespace tilescope::test
