#include "tessera/tensor/told.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/process/resident.hpp"
#include "tessera/base/shortened.hpp"
#include "tessera/tensor/account.hpp"

namespace tessera::tensor {

namespace {

std::string held_text() {
  return cat("its tensors hold ", Account::current().live().total(), " bytes, and the process ",
             resident_bytes());
}

Told out_of_memory(const std::string& detail) {
  return {cat("out of memory", detail.empty() ? "" : ": ", detail,
              ". Give each rank less to hold at a time: a smaller layout.micro_batch or model.sequence, or "
              "more ranks."),
          kExitUserError};
}

// From the words `begin` of a text up to its words `end`, or to the end of the sentence.
std::string part(const std::string& text, const std::string& begin, const std::string& end) {
  const auto first = text.find(begin);
  if (first == std::string::npos) return "";
  const auto last =
      std::min({text.find(end, first), text.find(". ", first), text.find('\n', first), text.size()});
  std::string out = text.substr(first + begin.size(), last - first - begin.size());
  while (out.ends_with('.')) out.pop_back();
  return out;
}

// The allocator of CPUs says "you tried to allocate 1000 bytes", with what tensors hold if it is the arena;
// that of GPUs "Tried to allocate 2.00 GiB. GPU 0 has ... this process has 75.22 GiB memory in use".
std::string allocation(const std::string& text) {
  const std::string wanted = part(text, "ried to allocate ", "\n");
  const std::string held = part(text, "this process has ", " memory in use");
  if (wanted.empty()) return held_text();
  return cat("it tried to allocate ", wanted, held.empty() ? "" : cat(" and holds ", held, " of the device"));
}

// Threads need memory too: a stack each.
bool lacks_threads(const std::system_error& failed) {
  return failed.code() == std::errc::resource_unavailable_try_again ||
         failed.code() == std::errc::not_enough_memory;
}

}  // namespace

Told told(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return out_of_memory(held_text());
  } catch (const std::system_error& failed) {
    if (!lacks_threads(failed)) return {bounded_message(failed.what()), exit_code(failed)};
    return out_of_memory(cat("no thread or memory is left (", failed.code().message(),
                             "); the limits of this process are ulimit -v and ulimit -u, and ", held_text()));
  } catch (const c10::Error& failed) {
    const std::string text = failed.what_without_backtrace();
    if (text.find("allocate memory") != std::string::npos || text.find("out of memory") != std::string::npos)
      return out_of_memory(allocation(text));
    return {bounded_message(text.substr(0, text.find("\nException raised from"))), kExitBug};
  } catch (const std::exception& failed) {
    return {bounded_message(failed.what()), exit_code(failed)};
  } catch (...) {
    return {"something that is no std::exception was thrown", kExitBug};
  }
}

}  // namespace tessera::tensor
