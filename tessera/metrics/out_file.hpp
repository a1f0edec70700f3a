// How bytes reach a file, so that a full disk is noticed. The one way of this module to files that it writes
// at once.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/base/files/transient.hpp"

namespace tessera::metrics {

// The disk refused. The message says what, why and what to do.
class WriteError : public UserError {
 public:
  // `what` as in "open" or "write to"; `reason` is an errno; `option` is the one that names the place.
  WriteError(const char* what, const std::string& path, int reason, const std::string& option);

  // Why, without what to do.
  const std::string& cause() const { return cause_; }
  // Whether it may pass by itself.
  bool passes() const { return is_transient(reason_); }

 private:
  int reason_;
  std::string cause_;
};

class OutFile {
 public:
  // Begins empty. `option` is the one that names the place, for messages. Throws WriteError when the file
  // can't be opened; what was there is then as it was.
  OutFile(const std::string& path, std::string option);
  // All of it, visible to readers when this returns. Throws WriteError when the disk refuses.
  void write(std::string_view bytes);

 private:
  std::string path_, option_;
  std::ofstream out_;
};

}  // namespace tessera::metrics
