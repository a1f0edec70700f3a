// Ends an answer where one of several texts stands in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::generate {

class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What of the answer is sure after more of it came. What may be the begin of a stop text waits.
  std::string push(std::string_view more);
  // Whether one stood there: the answer ends before it, and nothing more comes.
  bool is_met() const { return is_met_; }
  // What still waited.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string waiting_;
  bool is_met_ = false;
};

}  // namespace tessera::generate
