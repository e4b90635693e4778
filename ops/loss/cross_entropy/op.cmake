opforge_operator(loss.cross_entropy)
