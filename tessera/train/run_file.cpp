#include "tessera/train/run_file.hpp"

#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/spec/load.hpp"

namespace tessera::train {

void keep_run_file(const spec::Run& run, const std::string& folder) {
  const std::string path = cat(folder, "/", kRunFileName), written = path + ".new";
  metrics::OutFile(written, "--out").write(spec::to_text(run));
  std::error_code error;
  std::filesystem::rename(written, path, error);
  if (error) throw UserError(cat("cannot rename '", written, "' to '", path, "': ", error.message()));
}

}  // namespace tessera::train
