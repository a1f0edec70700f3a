#include "tessera/base/process/stop_request.hpp"

namespace tessera {

bool StopRequest::is_first(int signal, double now_seconds) {
  int none = 0;
  if (!signal_.compare_exchange_strong(none, signal)) return false;
  since_seconds_ = now_seconds;
  return true;
}

void StopRequest::take_over(int signal, double now_seconds) { is_first(signal, now_seconds); }

StopRequest::Means StopRequest::ask(int signal, double now_seconds) {
  if (is_first(signal, now_seconds)) return Means::stop;
  const double since = since_seconds_;
  if (since == 0 || now_seconds - since < kOneRequestSeconds) return Means::nothing_new;
  ends_at_once_ = true;
  return Means::end_at_once;
}

}  // namespace tessera
