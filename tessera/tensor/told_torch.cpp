#include "tessera/tensor/told.hpp"

#include <c10/util/Exception.h>

#include <new>
#include "tessera/base/error.hpp"

namespace tessera::tensor {

namespace {

Told out_of_memory(const std::string& detail) {
  return {cat("out of memory", detail.empty() ? "" : ": ", detail,
              ". Give each rank less to hold at a time: a smaller layout.micro_batch or model.sequence, or "
              "more ranks."),
          kExitUserError};
}

// "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1000 bytes" -> "it tried to allocate
// 1000 bytes".
std::string allocation(const std::string& text) {
  const auto begin = text.find("tried to allocate");
  return begin == std::string::npos ? ""
                                    : "it " + text.substr(begin, text.find_first_of(".\n", begin) - begin);
}

}  // namespace

Told told(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return out_of_memory("");
  } catch (const c10::Error& failed) {
    const std::string text = failed.what_without_backtrace();
    if (text.find("allocate memory") != std::string::npos || text.find("out of memory") != std::string::npos)
      return out_of_memory(allocation(text));
    return {text.substr(0, text.find("\nException raised from")), kExitBug};
  } catch (const std::exception& failed) {
    return {failed.what(), exit_code(failed)};
  } catch (...) {
    return {"something that is no std::exception was thrown", kExitBug};
  }
}

}  // namespace tessera::tensor
