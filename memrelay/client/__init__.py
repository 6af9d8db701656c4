"""The clients over HTTP, and the methods of the operations in all Python interfaces."""
