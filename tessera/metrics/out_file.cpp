#include "tessera/metrics/out_file.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::metrics {

OutFile::OutFile(const std::string& path, std::string option)
    : path_(path), option_(std::move(option)), out_(path, std::ios::binary | std::ios::trunc) {
  if (!out_) refuse("open");
}

void OutFile::write(std::string_view bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  if (!out_) refuse("write to");
}

void OutFile::refuse(const char* what) const {
  const int reason = errno;
  const bool full = reason == ENOSPC || reason == EDQUOT;
  throw UserError(cat("cannot ", what, " '", path_, "': ", std::strerror(reason), ". ",
                      full ? "Free space there, or name" : "Name", " another place with ", option_, "."));
}

}  // namespace tessera::metrics
