/** What the codes of failed system calls mean, in plain words. */

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
