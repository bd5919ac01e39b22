/**
 * What a person pressed, from the bytes of a terminal in raw mode. Pure.
 *
 * I1  A key is one byte that belongs to nothing else. What an escape sequence, a pasted text or a letter of several bytes consists
 *     of is `other`, however its bytes are split over reads.
 * I2  Ctrl-C is a key wherever it comes, so nothing that was received before it can take the way out.
 */

/** A printable ASCII character, or one of these names. */
export type Key = string
export const CTRL_C = 'ctrl-c'
export const ENTER = 'enter'
/** An arrow or function key, a letter with Alt, a pasted text, a control character, a letter beyond ASCII. */
export const OTHER = 'other'

export type KeyState =
  | { readonly in: 'text'; /** Bytes that the current letter still needs. */ readonly missing: number }
  | { readonly in: 'escape' }
  | { readonly in: 'sequence'; readonly parameters: string }
  | { readonly in: 'linux-sequence' }
  | { readonly in: 'single-shift' }
  /** An answer of the terminal, such as its colours. */
  | { readonly in: 'string'; readonly isEnding: boolean }
  | { readonly in: 'paste'; /** What was received of its end. */ readonly end: string }

export const NO_KEYS: KeyState = { in: 'text', missing: 0 }

export function keysOf(
  bytes: Uint8Array,
  state: KeyState,
): { readonly keys: readonly Key[]; readonly state: KeyState } {
  const keys: Key[] = []
  for (const byte of bytes) {
    const { key, next } = byte === 0x03 ? { key: CTRL_C, next: NO_KEYS } : step(byte, state) // I2
    if (key !== undefined) keys.push(key)
    state = next
  }
  return { keys, state }
}

// ---- details, in the order they are used above ----

type Step = { readonly key?: Key; readonly next: KeyState }

const DONE: Step = { key: OTHER, next: NO_KEYS }

function step(byte: number, state: KeyState): Step {
  switch (state.in) {
    case 'text':
      return inText(byte, state.missing)
    case 'escape':
      return afterEscape(byte)
    case 'sequence':
      return inSequence(byte, state.parameters)
    case 'linux-sequence':
    case 'single-shift':
      return DONE
    case 'string':
      return inString(byte, state.isEnding)
    case 'paste':
      return inPaste(byte, state.end)
  }
}

function inText(byte: number, missing: number): Step {
  if (byte >= 0x80 && byte < 0xc0 && missing > 0) return { next: { in: 'text', missing: missing - 1 } }
  if (byte === ESC) return { next: { in: 'escape' } }
  if (byte === 0x9b) return { next: { in: 'sequence', parameters: '' } } // ESC [ as one byte
  if (byte === 0x8f) return { next: { in: 'single-shift' } } // ESC O as one byte
  if (byte === 0x0d || byte === 0x0a) return { key: ENTER, next: NO_KEYS }
  if (byte >= 0x20 && byte < 0x7f) return { key: String.fromCharCode(byte), next: NO_KEYS }
  return { key: OTHER, next: { in: 'text', missing: byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0 } }
}

function afterEscape(byte: number): Step {
  switch (String.fromCharCode(byte)) {
    case '[':
      return { next: { in: 'sequence', parameters: '' } }
    case 'O':
      return { next: { in: 'single-shift' } }
    case ']':
    case 'P':
    case 'X':
    case '^':
    case '_':
      return { next: { in: 'string', isEnding: false } }
    case '\x1b':
      return { next: { in: 'escape' } } // Alt with an arrow key
    default:
      return DONE // Alt with a letter, or Escape and then a letter: which of the two cannot be known
  }
}

function inSequence(byte: number, parameters: string): Step {
  if (byte === ESC) return { next: { in: 'escape' } }
  if (byte === 0x5b && parameters === '') return { next: { in: 'linux-sequence' } } // F1 to F5 of the Linux console: ESC [ [ A
  if (byte >= 0x40 && byte < 0x7f) {
    const isPaste = byte === 0x7e && parameters === '200'
    return isPaste ? { key: OTHER, next: { in: 'paste', end: '' } } : DONE
  }
  return { next: { in: 'sequence', parameters: (parameters + String.fromCharCode(byte)).slice(0, PARAMETERS_MAX) } }
}

/** Enter ends it, too: no answer of a terminal has one, and a person who pressed Alt with `]` gets out. */
function inString(byte: number, isEnding: boolean): Step {
  if (byte === 0x07 || byte === 0x0d || (isEnding && byte === 0x5c)) return DONE
  return { next: { in: 'string', isEnding: byte === ESC } }
}

function inPaste(byte: number, end: string): Step {
  const seen = end + String.fromCharCode(byte)
  if (seen === PASTE_END) return { next: NO_KEYS }
  return { next: { in: 'paste', end: PASTE_END.startsWith(seen) ? seen : byte === ESC ? '\x1b' : '' } }
}

const ESC = 0x1b
const PASTE_END = '\x1b[201~'
const PARAMETERS_MAX = 16 // enough to tell sequences apart
