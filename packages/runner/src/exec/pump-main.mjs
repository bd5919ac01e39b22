/**
 * The pump: a process beside the runner that copies what execs write from their pipes into their spools, and does nothing
 * else. Messages in and out are lines of JSON; the runner numbers the execs.
 *
 *     in   ["open", 7, bytesMax, [[pipe, spool], …]]   ["drain", 7]: copy what is left in its pipes, then close them
 *     out  ["ready"]   [7, "has", 0, 1003]: its first spool has 1003 bytes   [7, "full", error | null]   [7, "done"]
 *
 * I1  Bytes are read and written within one call, and the pump exits on its own only between such calls: when its input
 *     ends, because the runner is gone. So kill -9 of the runner never loses bytes that have left a pipe.
 * I2  What is reported is in the spool. After the first byte that is not kept none is, but the pipe is still read, so no
 *     writer blocks.
 * I3  A failure is reported under the number of its exec and affects no other.
 *
 * Plain JavaScript without a package: stripping types would double its memory.
 */
import { closeSync, constants, ftruncateSync, openSync, readSync, statSync, unlinkSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'

const DRAIN_BYTES_MAX = 1024 * 1024 // the largest pipe of an ordinary user; ours hold 64 KiB
const SHARED = Buffer.allocUnsafeSlow(64 * 1024) // one for all pipes: it is filled and emptied within one call

const execs = new Map()

class Exec {
  #id
  #bytesLeft
  #pipes
  #isFull = false

  constructor(id, bytesMax, copies) {
    this.#id = id
    this.#pipes = copies.map(([path, spool], at) => ({ at, path, spool, size: sizeOf(spool), fd: undefined }))
    this.#bytesLeft = bytesMax - this.#pipes.reduce((sum, { size }) => sum + size, 0)
    for (const { at, size } of this.#pipes) if (size > 0) report([id, 'has', at, size]) // copied for an earlier runner
    try {
      for (const pipe of this.#pipes) this.#listen(pipe)
    } catch (error) {
      this.#full(error) // I3
    }
  }

  /** Bounded: a survivor that keeps writing cannot hold us here. */
  drain() {
    for (const pipe of this.#pipes) {
      try {
        for (let taken = 0, length = 1; length > 0 && taken < DRAIN_BYTES_MAX; taken += length)
          length = this.#readOnce(pipe)
      } catch (error) {
        this.#full(error)
      }
    }
    report([this.#id, 'done']) // the runner waits for this, and for nothing below
    for (const pipe of this.#pipes) {
      pipe.socket?.destroy()
      if (pipe.fd !== undefined) closeSync(pipe.fd)
    }
  }

  #listen(pipe) {
    const fd = openSync(pipe.path, constants.O_RDWR | constants.O_NONBLOCK) // both ends: a writer that leaves does not end it
    const callback = (length) => {
      this.#take(pipe, SHARED.subarray(0, length))
      return true
    }
    pipe.socket = new Socket({ fd, readable: true, writable: false, onread: { buffer: SHARED, callback } })
    pipe.socket.on('error', (error) => this.#full(error))
    pipe.socket.resume()
    pipe.source = fd
  }

  #readOnce(pipe) {
    if (pipe.socket === undefined || pipe.socket.destroyed) return 0
    try {
      const length = readSync(pipe.source, SHARED, 0, SHARED.length, null)
      this.#take(pipe, SHARED.subarray(0, length))
      return length
    } catch (error) {
      if (error.code === 'EAGAIN') return 0
      throw error
    }
  }

  #take(pipe, bytes) {
    if (this.#isFull || bytes.length === 0) return
    const kept = bytes.subarray(0, this.#bytesLeft)
    try {
      if (kept.length > 0) this.#keep(pipe, kept) // I1
    } catch (error) {
      this.#full(error)
      return
    }
    if (kept.length < bytes.length) this.#full(null)
  }

  #keep(pipe, bytes) {
    pipe.fd ??= openSync(pipe.spool, 'a', 0o600)
    try {
      writeFully(pipe.fd, bytes)
    } catch (error) {
      ftruncateSync(pipe.fd, pipe.size) // half a chunk would shift every later offset
      throw error
    }
    pipe.size += bytes.length
    this.#bytesLeft -= bytes.length
    report([this.#id, 'has', pipe.at, pipe.size]) // I2
  }

  #full(error) {
    if (this.#isFull) return
    this.#isFull = true
    report([this.#id, 'full', error === null ? null : error.message])
  }
}

function sizeOf(spool) {
  return statSync(spool, { throwIfNoEntry: false })?.size ?? 0
}

/** The kernel may write less than it was given without reporting an error. */
function writeFully(fd, bytes) {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done, bytes.length - done)
}

/** Blocks while the runner is behind, so nothing piles up here. */
function report(message) {
  try {
    writeFully(1, Buffer.from(`${JSON.stringify(message)}\n`))
  } catch {
    exit() // the runner is gone
  }
}

function handle([order, id, ...rest]) {
  if (order === 'open') {
    execs.set(id, new Exec(id, ...rest))
  } else {
    execs.get(id)?.drain()
    execs.delete(id)
  }
}

/** Removes the note that says a pump exists: a note without a pump means that it was killed. */
function exit() {
  try {
    unlinkSync(process.argv[2])
  } catch {
    // The folder is gone.
  }
  process.exit(0)
}

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => undefined) // it exits with its runner
const input = new Socket({ fd: 0, readable: true, writable: false }).setEncoding('utf8')
let partialLine = ''
input.on('data', (text) => {
  const lines = (partialLine + text).split('\n')
  partialLine = lines.pop()
  for (const line of lines) handle(JSON.parse(line))
})
input.on('end', exit)
input.on('error', exit)
report(['ready'])
