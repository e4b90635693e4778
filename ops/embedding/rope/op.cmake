opforge_operator(embedding.rope)
