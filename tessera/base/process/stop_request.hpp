// Whether a job is asked to stop. Lies in memory that a launcher and its ranks share, or that the ranks of a
// process do.
#pragma once

#include <atomic>

namespace tessera {

class StopRequest {
 public:
  // Launchers pass a signal on to ranks that had it already: within this time all signals are one request.
  static constexpr double kOneRequestSeconds = 1;

  enum class Means { stop, nothing_new, end_at_once };
  // A signal came to a process of the job: the first asks to stop after the step, a later one to end at once.
  Means ask(int signal, double now_seconds);

  // Another rank of the job was asked; nothing if this one was too.
  void take_over(int signal, double now_seconds);

  // The first that asked; 0: none has.
  int signal() const { return signal_; }
  // When it came; 0: it has not.
  double since_seconds() const { return since_seconds_; }
  bool ends_at_once() const { return ends_at_once_; }
  // What a shell would show for a job that this signal ended; 0: nobody has asked.
  int exit_code() const { return signal_ == 0 ? 0 : 128 + signal_; }

 private:
  bool is_first(int signal, double now_seconds);

  std::atomic<int> signal_ = 0;
  std::atomic<double> since_seconds_ = 0;
  std::atomic<bool> ends_at_once_ = false;
};

}  // namespace tessera
