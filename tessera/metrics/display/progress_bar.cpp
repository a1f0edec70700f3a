#include "tessera/metrics/display/progress_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"
#include "tessera/metrics/display/terminal.hpp"

namespace tessera::metrics {

namespace {

constexpr double kPeriodSeconds = 0.125;
constexpr int kWordsWidth = 64, kMostBar = 40, kLeastBar = 8;

std::string repeated(const char* text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

StyledLine progress_line(const BytesDone& bytes, const Canvas& canvas) {
  const double done = static_cast<double>(bytes.done), all = static_cast<double>(bytes.all);
  const double share = bytes.all > 0 ? std::min(1.0, done / all) : 0;
  const double rate = bytes.seconds > 0 ? done / bytes.seconds : 0;
  const int width = std::clamp(canvas.width - kWordsWidth - columns(bytes.what), kLeastBar, kMostBar);
  const int full = static_cast<int>(share * width);
  const auto text = [&](double amount) {
    return bytes.unit.empty() ? bytes_text(amount) : count_text(amount);
  };
  const std::string of_all = bytes.unit.empty() ? text(all) : cat(text(all), " ", bytes.unit);
  StyledLine line;
  line.add(bytes.what, Style::strong).add(" ");
  line.add(repeated(canvas.unicode ? "━" : "=", full), Style::good);
  line.add(repeated(canvas.unicode ? "─" : "-", width - full), Style::faint);
  line.add_right(cat(static_cast<int>(share * 100), " %"), 6);
  line.add_right(cat(text(done), " of ", of_all), 24);
  line.add_right(rate > 0 ? cat(text(rate), "/s") : "", 14);
  line.add_right(rate > 0 ? cat(duration_text((all - done) / rate), " left") : "", 13, Style::accent);
  return line;
}

ProgressBar::ProgressBar(std::string what, std::string unit)
    : is_live_(is_live_terminal(STDERR_FILENO)),
      begin_seconds_(now_seconds()),
      drawn_seconds_(begin_seconds_),
      bytes_{.what = std::move(what), .unit = std::move(unit)} {}

ProgressBar::~ProgressBar() {
  if (is_live_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t all) {
  const double now = now_seconds();
  if (!is_live_ || now - drawn_seconds_ < kPeriodSeconds) return;
  drawn_seconds_ = now;
  bytes_.done = done, bytes_.all = all, bytes_.seconds = now - begin_seconds_;
  const Canvas canvas = canvas_of(STDERR_FILENO);
  std::fputs(
      ("\r" + progress_line(bytes_, canvas).rendered(canvas.width - 1, canvas.colours) + "\x1b[K").c_str(),
      stderr);
}

}  // namespace tessera::metrics
