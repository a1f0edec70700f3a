// The words around the panels: heading, legend, and the table that compares two panels.
#include <algorithm>
#include <set>

#include "tessera/base/text.hpp"
#include "tessera/draw/compare.hpp"
#include "tessera/draw/palette.hpp"
#include "tessera/draw/sheet.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::draw {
namespace {

using program::OpKind;

struct Seen {
  std::set<OpKind> kinds;
  bool visits = false;
};

Seen seen_in(const Picture& picture) {
  Seen out;
  for (const Panel& panel : picture.panels)
    for (const Lanes& rank : panel.ranks)
      for (const Row& row : rank.rows)
        for (const Bar& bar : row.bars) {
          if (!takes_time(bar)) continue;
          out.kinds.insert(bar.what);
          out.visits |= bar.visit > 0;
        }
  return out;
}

// Entries one after the other, on as many lines as they need.
class Legend {
 public:
  explicit Legend(Sheet& sheet) : sheet_(sheet), x_(kMargin) {}

  // `swatch` is given the place of its upper left corner, 12 pixels wide and high.
  template <typename Swatch>
  void add(const Swatch& swatch, double swatch_width, const std::string& words) {
    const double width = swatch_width + 5 + kLetterEms * 11 * static_cast<double>(words.size()) + 14;
    if (x_ > kMargin && x_ + width > sheet_.width() - kMargin) {
      x_ = kMargin;
      sheet_.y += 18;
    }
    sheet_.body += swatch(x_, sheet_.y);
    sheet_.body += text_at(x_ + swatch_width + 5, sheet_.y + 10, "legend", words);
    x_ += width;
  }

 private:
  Sheet& sheet_;
  double x_;
};

std::string swatch(std::string_view classes, double x, double y, double width = 12, double height = 12) {
  return cat("<rect class=\"", classes, "\" x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(width),
             "\" height=\"", px(height), "\"/>\n");
}

void add_table(Sheet& sheet, const Picture& picture, const std::vector<Compared>& rows, const char* title,
               double x, double y) {
  const double columns[] = {x + 190, x + 270, x + 340};
  sheet.body += text_at(x, y, "name", title);
  const char* heads[] = {"predicted", "measured", "difference"};
  for (int i = 0; i < 3; ++i) sheet.body += text_at(columns[i], y, "number quiet", heads[i]);
  for (const Compared& row : rows) {
    y += 16;
    sheet.body += text_at(x, y, "row-name", fitted(row.name, 11, 120));
    sheet.body += text_at(columns[0], y, "number", time_text(row.predicted, picture.unit));
    sheet.body += text_at(columns[1], y, "number", time_text(row.measured, picture.unit));
    sheet.body += text_at(columns[2], y, "number", difference_text(row));
  }
}

}  // namespace

void add_heading(Sheet& sheet, const Picture& picture) {
  const double room = sheet.width() - 2 * kMargin;
  sheet.y = kMargin + 14;
  sheet.body += text_at(kMargin, sheet.y, "title", fitted(picture.title, 16, room));
  sheet.y += 8;
  for (const std::string& note : picture.notes)
    for (const std::string& line : wrapped(note, 12, room)) {
      sheet.y += 16;
      sheet.body += text_at(kMargin, sheet.y, "numbers quiet", fitted(line, 12, room));
    }
  sheet.y += 12;
}

void add_legend(Sheet& sheet, const Picture& picture) {
  const Seen seen = seen_in(picture);
  sheet.body += "<g class=\"legend-box\">\n";
  Legend legend(sheet);
  for (const OpKind what : seen.kinds)
    legend.add(
        [&](double x, double y) {
          std::string out;
          for (int shade = 0; shade < num_shades(what); ++shade)
            out += swatch(colour_class(what, shade), x + shade * 21.0 / num_shades(what), y,
                          21.0 / num_shades(what));
          return out;
        },
        21, std::string(program::name_of(what)));
  legend.add([](double x, double y) { return swatch("idle", x, y); }, 12, "idle");
  if (seen.visits)
    legend.add(
        [](double x, double y) {
          return swatch(colour_class(OpKind::forward, 0), x, y) +
                 stripes(1, colour_class(OpKind::forward, 0), x, y + 12, 12);
        },
        12, "a later virtual stage of the rank");
  legend.add([](double x, double y) { return swatch("held", x, y + 4, 12, 8); }, 12,
             picture.held == Held::bytes ? "bytes held" : "activations held");
  legend.add([](double, double) { return std::string(); }, -5, "shade and number: micro-batch");
  sheet.body += "</g>\n";
  sheet.y += 26;
}

void add_comparison(Sheet& sheet, const Picture& picture) {
  const Comparison compared = compare(picture.panels[0], picture.panels[1]);
  const double top = sheet.y + 14;
  add_table(sheet, picture, compared.ranks, "times", kMargin, top);
  add_table(sheet, picture, compared.kinds, "all ranks, by kind", kMargin + 400, top);
  sheet.y = top + 16 * static_cast<double>(std::max(compared.ranks.size(), compared.kinds.size())) + 8;
}

}  // namespace tessera::draw
