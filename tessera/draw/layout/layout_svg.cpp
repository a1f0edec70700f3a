#include <algorithm>
#include <cmath>
#include <functional>

#include "tessera/base/error.hpp"
#include "tessera/draw/layout/layout_sheet.hpp"
#include "tessera/draw/palette.hpp"
#include "tessera/draw/svg.hpp"

namespace tessera::draw {
namespace {

constexpr std::int64_t kMostRanks = 1024;
constexpr double kCardWidth = 340, kCardGap = 18, kLeastWidth = 3 * (kCardWidth + kCardGap) - kCardGap;
constexpr double kMostAcross = 290, kLeastAcross = 60, kMostDown = 130, kLeastDown = 34, kStrip = 15;
constexpr double kLine = 14;
constexpr std::size_t kMostAlike = 12;  // of a card's parameters that are cut differently

// Tensors beside each other are drawn in proportion to the root of their sizes: long ones stay on the card,
// short ones are still seen.
double pixels(std::int64_t size, std::int64_t largest, double least, double most) {
  return std::clamp(most * std::sqrt(static_cast<double>(size) / static_cast<double>(largest)), least, most);
}

// The tensor's place on the sheet: its first dim goes down, its second (of a vector the only one) across.
struct Frame {
  double x, y, width, height;
  Shape shape;

  std::pair<double, double> along(const Box& box, std::size_t dim, double origin, double length) const {
    const double scale = length / static_cast<double>(shape[dim]);
    return {origin + static_cast<double>(box.offset[dim]) * scale,
            static_cast<double>(box.extent[dim]) * scale};
  }
  struct Rect {
    double x, y, width, height;
  };
  Rect rect(const Box& box) const {
    if (shape.empty()) return {x, y, width, height};
    const auto across = along(box, shape.size() == 1 ? 0 : 1, x, width);
    const auto down = shape.size() == 1 ? std::pair(y, height) : along(box, 0, y, height);
    return {across.first, down.first, across.second, down.second};
  }
};

// What is drawn of a parameter, or of a value: cards that lie side by side on the sheet.
class Card {
 public:
  Card(const LayoutPicture& picture, std::int64_t largest) : picture_(picture), largest_(largest) {}

  // Both at this place of the sheet; they return where the card ends.
  double add_value(std::string& body, double x, double y, const HeldParameter& value) const {
    y = add_words(body, x, y, "name", value.name);
    y = add_words(body, x, y, "quiet", cat(shape_text(value.shape), ", tokens x channels"));
    y = add_words(body, x, y, "words", value.placements);
    y = add_words(body, x, y, "quiet", cat("values: ", pieces_text(value.pieces)));
    return add_tensor(body, x, y - 4, value, value.pieces) + kLine + 8;
  }
  double add_parameter(std::string& body, double x, double y, const FoldedParameter& parameter) const {
    const HeldParameter& first = *parameter.alike.front().first;
    y = add_words(body, x, y, "name", parameter.name);
    std::string size = shape_text(first.shape);
    if (parameter.count > 1) size = cat(parameter.count, " of ", size);
    if (parameter.alike.size() == 1 && !parameter.alike.front().which.empty())
      size += cat(": ", parameter.alike.front().which);
    y = add_words(body, x, y, "quiet", size);
    y = add_words(body, x, y, "words", first.placements);
    const std::size_t shown = std::min(parameter.alike.size(), kMostAlike);
    for (std::size_t i = 0; i < shown; ++i) {
      const auto& alike = parameter.alike[i];
      if (parameter.alike.size() > 1) y = add_words(body, x, y, "quiet", alike.which);
      for (const auto& group : picture_.groups()) {
        const auto& pieces = picture_.pieces(*alike.first, group.front());
        y = add_words(body, x, y, "quiet", cat(names_of(group), ": ", pieces_text(pieces)));
        y = add_tensor(body, x, y - 4, *alike.first, pieces) + kLine + 2;
      }
    }
    if (shown < parameter.alike.size())
      y = add_words(body, x, y, "quiet", cat("and ", parameter.alike.size() - shown, " more, cut elsewhere"));
    return y + 6;
  }

 private:
  static double add_words(std::string& body, double x, double y, const char* classes,
                          const std::string& words) {
    for (const std::string& line : wrapped(words, 11, kCardWidth)) {
      body += text_at(x, y, classes, fitted(line, 11, kCardWidth));
      y += kLine;
    }
    return y;
  }

  static std::string pieces_text(std::span<const HeldPiece> pieces) {
    const auto count = pieces.size();
    const std::int64_t copies = num_copies(pieces);
    return cat(count == 1 ? "one piece" : cat(count, " pieces"), ", ",
               copies == 1 ? "one copy" : cat(copies, " copies"), count == 1 ? "" : " of each");
  }

  double add_tensor(std::string& body, double x, double y, const HeldParameter& parameter,
                    std::span<const HeldPiece> pieces) const {
    const Shape& shape = parameter.shape;
    const bool is_strip = shape.size() < 2;
    const std::int64_t across = shape.empty() ? 1 : is_strip ? shape[0] : shape[1];
    const Frame frame{x, y, pixels(across, largest_, kLeastAcross, kMostAcross),
                      is_strip ? kStrip : pixels(shape[0], largest_, kLeastDown, kMostDown), shape};
    // Further copies lie behind.
    const std::int64_t behind = std::min<std::int64_t>(num_copies(pieces) - 1, 3);
    for (std::int64_t i = behind; i > 0; --i)
      body += cat("<rect class=\"copy\" x=\"", px(x + 3.0 * static_cast<double>(i)), "\" y=\"",
                  px(y + 3.0 * static_cast<double>(i)), "\" width=\"", px(frame.width), "\" height=\"",
                  px(frame.height), "\"/>\n");
    for (const HeldPiece& piece : pieces) add_piece(body, frame, parameter, piece);
    if (parameter.parts.size() > 1)
      for (const Box& part : parameter.parts) {
        const auto at = frame.rect(part);
        body += cat("<rect class=\"part\" x=\"", px(at.x), "\" y=\"", px(at.y), "\" width=\"", px(at.width),
                    "\" height=\"", px(at.height), "\"/>\n");
      }
    return y + frame.height + 3.0 * static_cast<double>(behind);
  }

  void add_piece(std::string& body, const Frame& frame, const HeldParameter& parameter,
                 const HeldPiece& piece) const {
    const mesh::Rank place = picture_.on_first_stage(piece.ranks.front());
    const std::string label = ranks_label(piece.ranks);
    Frame::Rect widest{0, 0, 0, 0};
    for (const Box& box : piece.boxes) {
      const auto at = frame.rect(box);
      if (at.width * at.height > widest.width * widest.height) widest = at;
      body += rank_rect(place, at.x, at.y, at.width, at.height,
                        cat(parameter.name, " from ", shape_text(box.offset), ", ", shape_text(box.extent),
                            ": rank ", label));
    }
    if (widest.height >= 10)
      body += rank_words(place, widest.x + widest.width / 2, widest.y + widest.height / 2 + 3, 9,
                         widest.width, label);
  }

  const LayoutPicture& picture_;
  std::int64_t largest_;
};

// `add` puts one of `count` cards at a place of the sheet and returns where it ends.
void add_cards(Sheet& sheet, std::size_t count, std::size_t columns,
               const std::function<double(std::size_t, double, double)>& add) {
  for (std::size_t i = 0; i < count; i += columns) {
    double end = sheet.y;
    for (std::size_t c = 0; c < columns && i + c < count; ++c)
      end = std::max(end, add(i + c, kMargin + static_cast<double>(c) * (kCardWidth + kCardGap), sheet.y));
    sheet.y = end + 12;
  }
}

void add_heading(Sheet& sheet, const LayoutPicture& picture, double width) {
  sheet.y = kMargin + 14;
  sheet.body += text_at(kMargin, sheet.y, "title", fitted(picture.title, 16, width));
  for (const std::string& note : picture.notes)
    for (const std::string& line : wrapped(note, 12, width))
      sheet.body += text_at(kMargin, sheet.y += 16, "numbers quiet", line);
  sheet.y += 18;
}

}  // namespace

std::string rank_rect(mesh::Rank place, double x, double y, double width, double height,
                      const std::string& title) {
  return cat("<rect class=\"held-by\" fill=\"", to_text(rank_colour(place)), "\" x=\"", px(x), "\" y=\"",
             px(y), "\" width=\"", px(width), "\" height=\"", px(height), "\"><title>", xml_escaped(title),
             "</title></rect>\n");
}

std::string rank_words(mesh::Rank place, double x, double y, double font_pixels, double room,
                       const std::string& words) {
  if (words.empty() || kLetterEms * font_pixels * static_cast<double>(words.size()) > room) return "";
  const bool is_light = luminance(ink(rank_colour(place))) > 0.5;
  return text_at(x, y, cat("rank-words size", px(font_pixels), is_light ? " light" : " dark"), words);
}

std::string to_svg(const LayoutPicture& picture) {
  if (std::ssize(picture.ranks) > kMostRanks)
    throw UserError(
        cat("the picture would have ", picture.ranks.size(), " ranks; up to ", kMostRanks,
            " can be shown. Leave out -o for a table, or draw a smaller layout: the pattern repeats."));
  const auto parameters = folded(picture);
  std::int64_t largest = 1;
  for (const HeldParameter& parameter : picture.parameters)
    for (const std::int64_t size : parameter.shape) largest = std::max(largest, size);
  Sheet sheet;
  add_heading(sheet, picture, kLeastWidth);
  const double width = std::max(kLeastWidth, add_mesh(sheet, picture));
  const auto columns = static_cast<std::size_t>((width + kCardGap) / (kCardWidth + kCardGap));
  const Card card(picture, largest);
  add_cards(sheet, picture.values.size(), columns, [&](std::size_t i, double x, double y) {
    return card.add_value(sheet.body, x, y, picture.values[i]);
  });
  add_cards(sheet, parameters.size(), columns, [&](std::size_t i, double x, double y) {
    return card.add_parameter(sheet.body, x, y, parameters[i]);
  });
  return svg_file(
      picture.title,
      ".axis { fill: var(--quiet); font-size: 10px } .held-by { stroke: var(--paper); stroke-width: 0.8 }\n"
      ".rank-words { text-anchor: middle; pointer-events: none } .light { fill: #ffffff } .dark { fill: "
      "#141414 }\n.size13 { font-size: 13px; font-weight: 600 } .size9 { font-size: 9px }\n"
      ".copy { fill: var(--held-fill); stroke: var(--held); stroke-width: 0.6 } "
      ".part { fill: none; stroke: var(--text); stroke-width: 1.4 }\n",
      width + 2 * kMargin, sheet.y, sheet.body);
}

}  // namespace tessera::draw
