/** Failed system calls: their codes, and what they mean in plain words. */

/** The code of a failed system call, such as `ENOENT`. Undefined for any other error. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

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
