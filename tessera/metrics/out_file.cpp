#include "tessera/metrics/out_file.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace tessera::metrics {

namespace {

std::string cause_of(const char* what, const std::string& path, int reason) {
  return cat("cannot ", what, " '", path, "': ", std::strerror(reason));
}

}  // namespace

WriteError::WriteError(const char* what, const std::string& path, int reason, const std::string& option)
    : UserError(cat(cause_of(what, path, reason), ". ",
                    reason == ENOSPC || reason == EDQUOT ? "Free space there, or name" : "Name",
                    " another place with ", option, ".")),
      reason_(reason),
      cause_(cause_of(what, path, reason)) {}

OutFile::OutFile(const std::string& path, std::string option)
    : path_(path), option_(std::move(option)), out_(path, std::ios::binary | std::ios::trunc) {
  if (!out_) throw WriteError("open", path_, errno, option_);
}

void OutFile::write(std::string_view bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  if (!out_) throw WriteError("write to", path_, errno, option_);
}

}  // namespace tessera::metrics
