#include "tessera/job/run_folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"

namespace tessera::job {

namespace {

// With another value of these a run goes on where it stopped.
bool may_change(std::string_view key) {
  constexpr std::array<std::string_view, 4> kKeys = {"training.steps", "training.stop_after_skipped",
                                                     "data.bytes_as_tokens", "model.follow_links"};
  return key.starts_with("layout.") || key.starts_with("cluster.") || key.starts_with("checkpoint.") ||
         key.starts_with("metrics.") || std::ranges::count(kKeys, key) > 0;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '=' ||
         c == '-' || c == '_' || c == '+';
}

}  // namespace

std::string default_run_folder(const std::string& run_file, std::span<const std::string> overrides) {
  constexpr std::size_t kMost = 80;
  const std::string folder = cat("runs/", std::filesystem::path(run_file).stem().string());
  std::map<std::string, std::string> changed;  // the last value of each key
  for (const std::string& text : overrides) {
    const std::string key = text.substr(0, text.find('='));
    if (!may_change(key)) changed[key] = text;
  }
  std::string suffix;
  for (const auto& [key, text] : changed) suffix += "," + text;
  const std::string exact = suffix;
  for (char& c : suffix)
    if (!is_plain(c) && c != ',') c = '_';
  if (suffix != exact || suffix.size() > kMost)  // another text may look the same now
    suffix = cat(suffix.substr(0, kMost), ",", stream_of(exact) % 1'000'000);
  return folder + suffix;
}

std::string folder_note(const std::string& run_file, std::span<const std::string> overrides) {
  const std::string folder = default_run_folder(run_file, overrides),
                    without = default_run_folder(run_file, {});
  if (folder == without) return "";
  return cat("what the command line changes makes this another run than ", without, ", so its folder is ",
             folder, ". --out ", without, " resumes that one instead.");
}

}  // namespace tessera::job
