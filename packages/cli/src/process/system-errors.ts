/** What the codes of failed system calls mean, in plain words. */
import { Fault } from '@breakfall/faults'
import { errorCode } from '@breakfall/faults/internal'

/** Why a file cannot be written, by that code. */
export function reasonFor(code: string | undefined): string {
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return 'permission denied'
    case 'EROFS':
      return 'the file system is read-only'
    case 'EISDIR':
      return 'it is a folder'
    case 'ENOENT':
      return 'its folder does not exist'
    case 'ENOTDIR':
      return 'its folder is a file'
    case 'ENOSPC':
      return 'the disk is full'
    case undefined:
      return 'it cannot be created'
    default:
      return `it cannot be created (${code})`
  }
}

/** Why a service could not bind its port. Any other error is unchanged. */
export function listenFault(error: unknown, host: string, port: number): unknown {
  const sentence = sentenceFor(errorCode(error), host, port)
  return sentence === undefined ? error : new Fault('invalid_request', { error: sentence, cause: error })
}

// ---- details, in the order they are used above ----

function sentenceFor(code: string | undefined, host: string, port: number): string | undefined {
  if (code === 'EADDRINUSE') return `Port ${port} on ${host} is in use; choose another with --port, or 0 for a free one`
  if (code === 'EACCES' && port < 1024)
    return `Binding port ${port} needs more permissions; choose a port from 1024 up, or 0 for a free one`
  if (code === 'EADDRNOTAVAIL') return `${host} is not an address of this machine; omit --host to bind loopback`
  return undefined
}
