/** Says whether it has the lock of a file, and then keeps it until its standard input ends. */
import { lockFile } from '../../src/platform.ts'

const lock = lockFile(process.argv[2] ?? '')
process.stdout.write(lock === undefined ? 'refused\n' : 'held\n')
if (lock === undefined) process.exit(0)
process.stdin.resume()
