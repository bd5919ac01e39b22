// Dies of an exception and reports it on its private channel, fd 3 or IPC.
import { writeSync } from 'node:fs'

const words = {
  type: 'termination-error',
  name: 'RangeError',
  message: 'layer 7 is out of range',
  stack: 'RangeError\n  at x',
}
if (process.send === undefined) {
  writeSync(3, `{"type":"progress","message":"loading 6 of 48"}\nnot json\n${JSON.stringify(words)}`)
  process.exit(1)
} else {
  process.send({ type: 'ready' })
  process.send(words, () => process.exit(1))
}
