/** Explains why a service could not bind its port. */
import { Fault } from '@breakfall/faults'
import { errorCode } from '@breakfall/faults/internal'

/** Any other error is unchanged. */
export function listenFault(error: unknown, host: string, port: number): unknown {
  const sentence = sentenceFor(errorCode(error), host, port)
  return sentence === undefined ? error : new Fault('invalid_request', { error: sentence, cause: error })
}

function sentenceFor(code: string | undefined, host: string, port: number): string | undefined {
  if (code === 'EADDRINUSE') return `Port ${port} on ${host} is in use; choose another with --port, or 0 for a free one`
  if (code === 'EACCES' && port < 1024)
    return `Binding port ${port} needs more permissions; choose a port from 1024 up, or 0 for a free one`
  if (code === 'EADDRNOTAVAIL') return `${host} is not an address of this machine; omit --host to bind loopback`
  return undefined
}
