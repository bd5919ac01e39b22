/**
 * Names of error numbers in messages. The numbers differ between systems (54 is ECONNRESET on macOS and EXFULL on Linux)
 * and the message does not say which system wrote it, so both names are given if they differ.
 */

export function errnoOf(match: RegExpExecArray): string | undefined {
  const errno = Number(match[1])
  if (!Number.isInteger(errno)) return undefined
  const names = [...new Set([MACOS[errno], LINUX[errno]].filter((name) => name !== undefined))]
  const [first, second] = names
  if (first === undefined) return `errno ${errno}`
  if (second === undefined) return `errno ${errno}, ${first}`
  return `errno ${errno}, ${first} on macOS, ${second} on Linux`
}

// ---- details: the errors that sockets return ----

const SAME = { 4: 'EINTR', 5: 'EIO', 9: 'EBADF', 12: 'ENOMEM', 13: 'EACCES', 14: 'EFAULT', 22: 'EINVAL', 32: 'EPIPE' }

const MACOS: Readonly<Record<number, string>> = {
  ...SAME,
  35: 'EAGAIN',
  50: 'ENETDOWN',
  51: 'ENETUNREACH',
  53: 'ECONNABORTED',
  54: 'ECONNRESET',
  57: 'ENOTCONN',
  60: 'ETIMEDOUT',
  61: 'ECONNREFUSED',
  64: 'EHOSTDOWN',
  65: 'EHOSTUNREACH',
}

const LINUX: Readonly<Record<number, string>> = {
  ...SAME,
  11: 'EAGAIN',
  35: 'EDEADLK',
  50: 'ENOCSI',
  51: 'EL2HLT',
  53: 'EBADR',
  54: 'EXFULL',
  57: 'EBADSLT',
  60: 'ENOSTR',
  61: 'ENODATA',
  64: 'ENONET',
  65: 'ENOPKG',
  100: 'ENETDOWN',
  101: 'ENETUNREACH',
  103: 'ECONNABORTED',
  104: 'ECONNRESET',
  107: 'ENOTCONN',
  110: 'ETIMEDOUT',
  111: 'ECONNREFUSED',
  112: 'EHOSTDOWN',
  113: 'EHOSTUNREACH',
}
