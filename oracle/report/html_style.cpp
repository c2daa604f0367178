#include "oracle/report/html.h"

namespace tilescope {

const std::string_view html_style = R"(
:root { color-scheme: light dark; --paper: #ffffff; --card: #f6f8fa; --ink: #1f2328; --dim: #59636e; --line: #d1d9e0;
  --bad: #b42318; --good: #1a7f37; --other: #8250df; --look: #0550ae; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --card: #161b22; --ink: #e6edf3; --dim: #9198a1; --line: #3d444d;
    --bad: #ff7b72; --good: #3fb950; --other: #bc8cff; --look: #79c0ff; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 92rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
code, pre, table, .chain { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 13px; }
h1 { margin: 0; font-size: 1.35rem; line-height: 1.35; }
h2 { margin: 2rem 0 .5rem; font-size: 1rem; }
p { margin: .35rem 0; }
pre { margin: .35rem 0; overflow-x: auto; overflow-wrap: normal; }
.card { padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line); border-left: .5rem solid var(--dim);
  border-radius: .4rem; }
.card.wrong { border-left-color: var(--bad); }
.card.wrong h1 { color: var(--bad); }
.card.right { border-left-color: var(--good); }
.card.right h1 { color: var(--good); }
.look { color: var(--look); font-weight: 600; }
.dim, figcaption, caption { color: var(--dim); }
.run span + span::before { content: " \b7  "; color: var(--dim); }
.chain { display: flex; flex-wrap: wrap; gap: .4rem; margin: 1.25rem 0; padding: 0; list-style: none; }
.chain li { min-width: 5.2rem; padding: .35rem .6rem; border: 1px solid var(--line); border-radius: .3rem; cursor: help; }
.chain b { display: block; }
.chain i { display: inline-block; width: .65em; height: .65em; margin-right: .45em; border: 1.5px solid currentColor; border-radius: 50%; }
.chain .right { color: var(--good); }
.chain .right i { background: currentColor; }
.chain .guilty, .chain .wrong, .chain .differs { color: var(--bad); border-color: currentColor; }
.chain .guilty { border-width: 3px; font-weight: 700; }
.chain .guilty i, .chain .wrong i, .chain .differs i { border-radius: 0; transform: rotate(45deg); background: currentColor; }
.chain .wrong i { background: none; }
.chain .inherited { color: var(--other); border-style: dashed; border-color: currentColor; }
.chain .inherited i { width: 0; height: 0; border: .35em solid transparent; border-left: .65em solid currentColor; border-right: 0;
  border-radius: 0; }
.chain .absent { color: var(--dim); border-style: dotted; }
.chain .absent i { height: 0; border-width: 0 0 2px; border-radius: 0; vertical-align: middle; }
.chain .unknown { color: var(--dim); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; white-space: nowrap; overflow-wrap: normal; }
caption { padding: .2rem 0; text-align: left; }
th, td { padding: .15rem .75rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--dim); font-weight: 600; }
.words table { white-space: normal; }
.words th, .words td { text-align: left; vertical-align: top; }
.words td:last-child { white-space: nowrap; }
tr.marked > * { color: var(--bad); font-weight: 700; }
details { margin: 1rem 0; }
summary { cursor: pointer; font-weight: 600; }
.sub { padding-left: 1.5rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(32rem, 100%), 1fr)); gap: 1rem; align-items: start; }
figure { margin: 0; }
figure img { display: block; max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: .3rem; background: #ffffff; }
figcaption { margin-top: .3rem; font-size: 13px; }
@media print { body { max-width: none; padding: 0; } figure, .card { break-inside: avoid; } }
)";

}  // namespace tilescope
