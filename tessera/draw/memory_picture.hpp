// A picture of memory over a step: bytes by category, stacked, a panel for each class of equal ranks, with
// the peak and the limit marked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/memory/memory.hpp"
#include "tessera/simulate/timeline.hpp"

namespace tessera::draw {

// What is held from `time` on.
struct MemoryLevel {
  double time = 0;
  BytesHeld bytes = {};
  bool operator==(const MemoryLevel&) const = default;
};

struct MemoryPanel {
  std::string title;  // "rank 0 (and 3 equal ones)"
  std::vector<MemoryLevel> levels;
  double peak_time = 0;
  std::int64_t peak_bytes = 0;
  std::string peak_text;  // "1.5 GiB in op 12 (...)"
  bool operator==(const MemoryPanel&) const = default;
};

struct MemoryPicture {
  std::string title;
  std::vector<std::string> notes;
  std::vector<MemoryPanel> panels;
  double end = 0;                // seconds, of the last op
  std::int64_t limit_bytes = 0;  // 0: none
  bool operator==(const MemoryPicture&) const = default;
};

// Of a program and when its ops would run; without a title.
MemoryPicture memory_picture(const program::Program& program, const simulate::Timeline& timeline,
                             std::int64_t limit_bytes);

// A whole file each: the picture alone, or on a page as wide as the window.
std::string to_svg(const MemoryPicture& picture);
std::string to_html(const MemoryPicture& picture);

}  // namespace tessera::draw
