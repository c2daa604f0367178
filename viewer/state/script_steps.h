#pragma once

#include <string>
#include <vector>

namespace tilescope::viewer {

/// A line of a script.
struct ScriptStep {
    int line = 0;
    std::string command;
    std::vector<std::string> arguments;
    std::string rest;             ///< all of the arguments, as written
    std::vector<double> numbers;  ///< of the arguments, where all of them are numbers
};

/// Reads a script: a step a line, '#' begins a comment.
///   key N            presses and releases; key_down and key_up do one of them
///   type TEXT        characters
///   click X Y        presses and releases the left button; click_right the right one
///   move X Y         moves the pointer
///   drag X Y X Y     with the left button held; drag_right with the right one
///   scroll X Y N     turns the wheel by N
///   drop FILE...     drops files
///   resize W H       of the window
///   wait             until everything that the window shows is there
///   await TEXT       until the window shows the text; \n ends a line
///   frames N         lets so many frames pass
///   expect TEXT      fails unless the window shows the text; expect_not fails if it does; \n ends a line
///   listen           takes what a person does, too
///   time             forgets how long frames took so far
///   screenshot FILE  writes the window as PNG
///   picture PANEL FILE      writes a part of it, such as heatmap, map_picture or element
///   expect_clipboard TEXT   fails unless the clipboard holds the text; expect_title that of the window
/// A place is two numbers, or PANEL:FX FY: shares of a panel's width and height, as in "map:0.5 0.5".
/// Errors: Error naming the line for what is none of these.
std::vector<ScriptStep> read_script(const std::string& path);

}  // namespace tilescope::viewer
