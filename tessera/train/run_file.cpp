#include "tessera/train/run_file.hpp"

#include <span>

#include "tessera/base/files/replace_file.hpp"
#include "tessera/base/text.hpp"
#include "tessera/spec/load.hpp"

namespace tessera::train {

void keep_run_file(const spec::Run& run, const std::string& folder) {
  const std::string text = spec::to_text(run);
  const auto bytes = std::as_bytes(std::span(text));
  replace_file(cat(folder, "/", kRunFileName), std::span(&bytes, 1));
}

}  // namespace tessera::train
