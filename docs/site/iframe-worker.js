// Search runs in a worker, which browsers refuse to pages that are read from the disk. There, this runs the
// worker's script in a hidden frame instead. The theme looks for the name IFrameWorker and talks by postMessage.
"use strict"

class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.appendChild(frame)
    this.inside = frame.contentWindow
    this.inside.document.open()
    this.inside.document.write("<html><body></body></html>")
    this.inside.document.close()
    this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}))
    this.inside.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => this.load(each)), Promise.resolve())
    this.loaded = this.load(url)
    this.addEventListener("message", event => this.onmessage && this.onmessage(event))
  }

  load(url) {
    return new Promise((resolve, reject) => {
      const script = this.inside.document.createElement("script")
      script.src = url
      script.onload = resolve
      script.onerror = reject
      this.inside.document.body.appendChild(script)
    })
  }

  postMessage(data) {
    this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})))
  }

  terminate() {
    this.inside.frameElement.remove()
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
}
