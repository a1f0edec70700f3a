#include "tessera/metrics/json_lines.hpp"

#include <cerrno>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::metrics {

JsonLines::JsonLines(const std::string& path) : path_(path), out_(path, std::ios::app) {
  if (!out_) throw UserError(cat("cannot open '", path, "' for metrics: ", std::strerror(errno)));
}

void JsonLines::write(std::span<const Field> record) {
  out_ << json_object(record) + '\n' << std::flush;
  if (!out_) throw UserError(cat("cannot write metrics to '", path_, "': ", std::strerror(errno)));
}

}  // namespace tessera::metrics
