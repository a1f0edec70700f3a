#include <algorithm>
#include <cmath>
#include <span>

#include "tessera/base/text.hpp"
#include "tessera/draw/layout/layout_sheet.hpp"

namespace tessera::draw {
namespace {

constexpr double kCellHeight = 42, kCellGap = 3, kBlockGap = 16, kLabelHeight = 16;
constexpr double kMostWidth = 1060;  // then the next line begins

// Ranks from `first` on, `stride` apart along the outermost of `axes`.
struct Block {
  std::span<const program::Axis> axes;
  mesh::Rank first = 0;
  std::int64_t stride() const {
    std::int64_t out = 1;
    for (const program::Axis& axis : axes.subspan(1)) out *= axis.size;
    return out;
  }
  // Innermost: side by side; next: below each other; and so on.
  bool is_across() const { return axes.size() % 2 == 1; }
  Block inner(std::int64_t place) const { return {axes.subspan(1), first + place * stride()}; }
};

struct Extent {
  double width = 0, height = 0;
};

double label_width(const program::Axis& axis) {
  return kLetterEms * 10 * static_cast<double>(cat(axis.name, " ", axis.size - 1).size()) + 8;
}

class MeshDrawing {
 public:
  MeshDrawing(const LayoutPicture& picture, std::span<const program::Axis> axes)
      : picture_(picture), cell_width_(std::max(68.0, axes.empty() ? 0 : label_width(axes.back()))) {}

  Extent extent(const Block& block) const {
    if (block.axes.empty()) return {cell_width_, kCellHeight};
    const Extent inner = extent(block.inner(0));
    const auto size = static_cast<double>(block.axes.front().size);
    if (!block.is_across())
      return {label_width(block.axes.front()) + inner.width, size * (inner.height + gap(block)) - gap(block)};
    const double across = std::min(size, most_across(block, inner));
    const double lines = std::ceil(size / across);
    return {across * (inner.width + gap(block)) - gap(block),
            lines * (inner.height + top(block) + gap(block)) - gap(block)};
  }

  std::string draw(const Block& block, double x, double y) const {
    if (block.axes.empty()) return cell(block.first, x, y);
    const program::Axis& axis = block.axes.front();
    const Extent inner = extent(block.inner(0));
    std::string out;
    for (std::int64_t place = 0; place < axis.size; ++place) {
      const std::string label = cat(axis.name, " ", place);
      if (block.is_across()) {
        const auto across = static_cast<std::int64_t>(most_across(block, inner));
        const double at = x + static_cast<double>(place % across) * (inner.width + gap(block));
        const double line =
            y + static_cast<double>(place / across) * (inner.height + top(block) + gap(block));
        if (top(block) > 0) out += text_at(at, line + 10, "name", label);
        out += draw(block.inner(place), at, line + top(block));
      } else {
        const double line = y + static_cast<double>(place) * (inner.height + gap(block));
        out += text_at(x, line + inner.height / 2 + 4, "axis", label);
        out += draw(block.inner(place), x + label_width(axis), line);
      }
    }
    return out;
  }

 private:
  static double gap(const Block& block) { return block.axes.size() <= 2 ? kCellGap : kBlockGap; }
  static double most_across(const Block& block, const Extent& inner) {
    return std::max(1.0, std::floor((kMostWidth + gap(block)) / (inner.width + gap(block))));
  }
  static double top(const Block& block) { return block.axes.size() == 1 ? 0 : kLabelHeight; }

  std::string cell(mesh::Rank rank, double x, double y) const {
    const HeldByRank& by = picture_.ranks[static_cast<std::size_t>(rank)];
    std::vector<std::string> words;
    std::string innermost;
    for (std::size_t i = 0; i < picture_.axes.size(); ++i)
      if (picture_.axes[i].size > 1)
        words.push_back(innermost = cat(picture_.axes[i].name, " ", by.coordinates[i]));
    const mesh::Rank place = picture_.on_first_stage(rank);
    const double middle = x + cell_width_ / 2;
    std::vector<std::string> kept, counts;
    for (const auto& group : picture_.groups()) {
      counts.push_back(count_text(static_cast<double>(picture_.elements(by, group.front()))));
      kept.push_back(cat(names_of(group), " of ", counts.back(), " elements"));
    }
    return rank_rect(place, x, y, cell_width_, kCellHeight,
                     cat("rank ", rank, words.empty() ? "" : ": ", join(words, ", "), "; keeps ",
                         join(kept, "; "))) +
           rank_words(place, middle, y + 15, 13, cell_width_, cat(rank)) +
           rank_words(place, middle, y + 27, 9, cell_width_, innermost) +
           rank_words(place, middle, y + 38, 9, cell_width_, join(counts, ", "));
  }

  const LayoutPicture& picture_;
  double cell_width_;
};

}  // namespace

double add_mesh(Sheet& sheet, const LayoutPicture& picture) {
  std::vector<program::Axis> axes;
  for (const program::Axis& axis : picture.axes)
    if (axis.size > 1) axes.push_back(axis);
  const MeshDrawing drawing(picture, axes);
  sheet.body += drawing.draw({axes}, kMargin, sheet.y);
  const Extent extent = drawing.extent({axes});
  sheet.y += extent.height + 26;
  return extent.width;
}

}  // namespace tessera::draw
