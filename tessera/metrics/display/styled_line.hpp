// A line of text with colours, measured and cut in columns of a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::metrics {

enum class Style { plain, strong, faint, good, warning, accent };

// Columns the text takes on a terminal.
int columns(std::string_view text);

class StyledLine {
 public:
  // Control characters and bytes that are no UTF-8 become '?', so that no name of a file can steer the
  // terminal.
  StyledLine& add(std::string_view text, Style style = Style::plain);
  StyledLine& add(const StyledLine& line);
  // Spaces up to that column.
  StyledLine& pad_to(int column);
  // The text in a field of `width` columns, at its right end.
  StyledLine& add_right(std::string_view text, int width, Style style = Style::plain);

  int width() const { return width_; }
  // Cut to `columns`; the colours end with the line.
  std::string rendered(int columns, bool colours) const;

 private:
  struct Span {
    std::string text;
    Style style;
  };
  std::vector<Span> spans_;
  int width_ = 0;
};

}  // namespace tessera::metrics
