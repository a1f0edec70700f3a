#include "tessera/draw/html.hpp"

#include "tessera/base/text.hpp"
#include "tessera/draw/page_script.hpp"
#include "tessera/draw/svg.hpp"

namespace tessera::draw {
namespace {

constexpr double kPageWidth = 1400;  // as wide as most windows: what is too small is zoomed into

constexpr char kStyle[] = R"(body { margin: 0; background: var(--paper); color: var(--text);
  font: 13px system-ui, "Helvetica Neue", Arial, sans-serif }
header { position: sticky; top: 0; z-index: 1; display: flex; gap: 6px; align-items: center;
  padding: 8px 16px;
  background: var(--paper); border-bottom: 1px solid var(--line) }
button { font: inherit; min-width: 32px; padding: 3px 9px; color: inherit; background: var(--idle);
  border: 1px solid var(--line); border-radius: 5px; cursor: pointer }
header span { color: var(--quiet); margin-left: 10px }
#picture { outline-offset: -2px }
#picture svg { display: block; width: 100%; height: auto; touch-action: pan-y }
.plot { cursor: grab } .plot.dragged { cursor: grabbing }
.bar.chosen { stroke: var(--text); stroke-width: 2.5 }
#told { position: fixed; left: 0; top: 0; max-width: 420px; padding: 8px 11px; pointer-events: none;
  white-space: pre-line;
  background: var(--paper); border: 1px solid var(--line); border-radius: 6px;
  box-shadow: 0 2px 10px #0004; line-height: 1.45 }
#told:empty { display: none }
)";

constexpr char kHeader[] = R"html(<header>
<button type="button" data-key="+" title="zoom in (+)">+</button>
<button type="button" data-key="-" title="zoom out (-)">&#8722;</button>
<button type="button" data-key="[" title="earlier ([)">&#8592;</button>
<button type="button" data-key="]" title="later (])">&#8594;</button>
<button type="button" data-key="0" title="the whole step (0)">reset</button>
<span>wheel zooms, drag moves, arrow keys go from bar to bar, Esc lets go</span>
</header>
)html";

}  // namespace

std::string to_html(const Picture& picture) {
  const std::string title = xml_escaped(picture.title);
  return cat("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             "<meta name=\"viewport\" content=\"width=device-width\">\n<title>", title, "</title>\n<style>\n",
             kStyle, "</style>\n</head>\n<body>\n", kHeader,
             "<main id=\"picture\" tabindex=\"0\" aria-label=\"", title, "\">\n",
             to_svg(picture, {.most_width = kPageWidth, .is_zoomed = true}),
             "</main>\n<div id=\"told\" role=\"status\" aria-live=\"polite\"></div>\n<script>\n", kPageScript,
             "</script>\n</body>\n</html>\n");
}

}  // namespace tessera::draw
