/**
 * The pump: a process beside the runner that copies what execs write, from their pipes into their spools, and does nothing
 * else. Words in and out are lines of JSON; execs are numbers of the runner's making.
 *
 *     in   ["open", 7, bytesMax, [[pipe, spool], …]]   ["rest", 7]: what is left in its pipes, for good
 *     out  ["ready"]   [7, "has", 0, 1003]: its first spool has so many bytes   [7, "full", why | null]   [7, "done"]
 *
 * I1  Bytes are read and written within one call, and it ends by itself only between such calls: when its runner is gone,
 *     which it sees as the end of its input. So kill -9 of the runner never takes bytes that have left a pipe.
 * I2  What is told is in the spool. After the first byte that is not kept none is, and the pipe is read on, so that nobody
 *     is held up by it.
 * I3  One exec's failure is told under its number and is nobody else's.
 *
 * Plain JavaScript without a package: stripping types would double its memory.
 */
import { closeSync, constants, ftruncateSync, openSync, readSync, statSync, unlinkSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'

const REST_BYTES_MAX = 1024 * 1024 // the largest pipe of an ordinary user; ours hold 64 KiB
const SHARED = Buffer.allocUnsafeSlow(64 * 1024) // one for all pipes: it is filled and emptied within one call

const execs = new Map()

class Exec {
  #id
  #room
  #pipes
  #isFull = false

  constructor(id, bytesMax, copies) {
    this.#id = id
    this.#pipes = copies.map(([path, spool], at) => ({ at, path, spool, size: sizeOf(spool), fd: undefined }))
    this.#room = bytesMax - this.#pipes.reduce((sum, { size }) => sum + size, 0)
    for (const { at, size } of this.#pipes) if (size > 0) tell([id, 'has', at, size]) // of an earlier runner
    try {
      for (const pipe of this.#pipes) this.#listen(pipe)
    } catch (error) {
      this.#full(error) // I3
    }
  }

  /** Bounded: a survivor that goes on writing is not listened to for ever. */
  rest() {
    for (const pipe of this.#pipes) {
      try {
        for (let taken = 0, length = 1; length > 0 && taken < REST_BYTES_MAX; taken += length) length = this.#once(pipe)
      } catch (error) {
        this.#full(error)
      }
    }
    tell([this.#id, 'done']) // the runner waits for that, and for nothing below
    for (const pipe of this.#pipes) {
      pipe.socket?.destroy()
      if (pipe.fd !== undefined) closeSync(pipe.fd)
    }
  }

  #listen(pipe) {
    const fd = openSync(pipe.path, constants.O_RDWR | constants.O_NONBLOCK) // both ends: nobody's leaving ends it
    const callback = (length) => {
      this.#take(pipe, SHARED.subarray(0, length))
      return true
    }
    pipe.socket = new Socket({ fd, readable: true, writable: false, onread: { buffer: SHARED, callback } })
    pipe.socket.on('error', (error) => this.#full(error))
    pipe.socket.resume()
    pipe.source = fd
  }

  #once(pipe) {
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
    const kept = bytes.subarray(0, this.#room)
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
    this.#room -= bytes.length
    tell([this.#id, 'has', pipe.at, pipe.size]) // I2
  }

  #full(error) {
    if (this.#isFull) return
    this.#isFull = true
    tell([this.#id, 'full', error === null ? null : error.message])
  }
}

function sizeOf(spool) {
  return statSync(spool, { throwIfNoEntry: false })?.size ?? 0
}

/** A short write is not an error to the kernel; to us the rest is still to be written. */
function writeFully(fd, bytes) {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done, bytes.length - done)
}

/** Waits where the runner is behind: nothing piles up here. */
function tell(words) {
  try {
    writeFully(1, Buffer.from(`${JSON.stringify(words)}\n`))
  } catch {
    end() // nobody is there to be told
  }
}

function obey([order, id, ...rest]) {
  if (order === 'open') {
    execs.set(id, new Exec(id, ...rest))
  } else {
    execs.get(id)?.rest()
    execs.delete(id)
  }
}

/** The note says that there is a pump. Who finds it without one knows that it was killed. */
function end() {
  try {
    unlinkSync(process.argv[2])
  } catch {
    // The folder is gone.
  }
  process.exit(0)
}

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => undefined) // it ends with its runner
const input = new Socket({ fd: 0, readable: true, writable: false }).setEncoding('utf8')
let begun = ''
input.on('data', (text) => {
  const lines = (begun + text).split('\n')
  begun = lines.pop()
  for (const line of lines) obey(JSON.parse(line))
})
input.on('end', end)
input.on('error', end)
tell(['ready'])
